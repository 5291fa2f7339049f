from functools import singledispatch


@singledispatch
def show(value):
    return repr(value)


@show.register
def _(value: int):
    return f"int {value}"


@show.register(str)
def show_text(value):
    return f"text {value}"


@singledispatch
def other(value):
    return value


@other.register
def _(value: int):
    return value + 1
