# A base for a machine without a hub: an interpreter of the host, packed as python.tar, on Debian.
ARG BASE
FROM ${BASE}
ARG MINOR
ADD python.tar /opt/
RUN ln -s "/opt/python/bin/python$MINOR" /usr/local/bin/ && echo /opt/python/lib >/etc/ld.so.conf.d/python.conf && ldconfig
