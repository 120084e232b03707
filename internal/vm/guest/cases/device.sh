# class: quick
uname -r
rdma link show
ibv_devinfo -d rxe0 | grep PORT_ACTIVE
