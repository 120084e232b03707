# class: quick
# The same as nvmeof-killed, on the Soft-RoCE device.
serve_target=serve_disk_on_device
survive KILL 1
