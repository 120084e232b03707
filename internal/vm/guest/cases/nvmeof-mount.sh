# class: quick
# The kernel's NVMe host mounts a file system from the soft device's target, over the wire
# path.
serve_disk_in_peer -size 256M
nvme_connect $PEER 2
check_file_system
nvme_disconnect
stop_target
