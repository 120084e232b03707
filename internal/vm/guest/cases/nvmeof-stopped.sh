# class: full
# A target is stopped in order while fio writes to a file system, and starts again.
on_both_devices survive TERM 0
