import sys

try:
    from forms._speed import fast
except ImportError:

    def fast(value):
        return slow(value)


try:
    import simplejson as json
except ImportError:
    import json

if sys.version_info >= (3, 0):

    def either(value):
        return json.dumps(value)

else:

    def either(value):
        return repr(value)


def slow(value, *, encode=json.dumps):
    return encode(value)
