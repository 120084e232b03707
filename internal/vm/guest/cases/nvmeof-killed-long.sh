# class: long
# A target is killed while fio writes to a file system, and comes back after 14 seconds.
# Until then the host has given up several attempts to connect.
on_both_devices survive KILL 14
