"""``kbind demo``: the whole story on two clusters, told as it happens and checked on both.

``clusters`` makes the two, ``story`` is what happens, ``stage`` does it, ``screen`` shows it,
``run`` puts it together. Everything here is for show and for tests; the konnector in it is the
real one.
"""
