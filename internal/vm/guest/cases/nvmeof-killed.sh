# class: quick
# A target is killed while fio writes to a file system, and comes back after a second.
serve_target=serve_disk_in_peer
survive KILL 1
