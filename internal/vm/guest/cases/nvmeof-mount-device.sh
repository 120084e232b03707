# class: quick
# The kernel's NVMe host mounts a file system from a target on the same Soft-RoCE device.
serve_disk_on_device -size 256M
nvme_connect $ADDR 2
check_file_system
nvme_disconnect
stop_target
