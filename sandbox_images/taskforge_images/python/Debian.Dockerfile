# A base for a machine without a hub: an interpreter of the host, below python/ in the context, on Debian.
ARG BASE
FROM ${BASE}
ARG MINOR
COPY python /opt/python
RUN ln -s "/opt/python/bin/python$MINOR" /usr/local/bin/ && echo /opt/python/lib >/etc/ld.so.conf.d/python.conf && \
    ldconfig && touch -d @946684800 /etc/ld.so.conf.d/python.conf /etc/ld.so.cache
