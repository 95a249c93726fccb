class Panic(BaseException):
    pass


raise Panic("index out of bounds")
