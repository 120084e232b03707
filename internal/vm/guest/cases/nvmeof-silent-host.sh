# class: full
# The links lose every packet. The target ends the controller after its keep alive
# timeout, and the host reconnects when packets arrive again. To take the link down instead
# would remove the IPv6 addresses, which later cases need.
serve_disk_in_peer -size 64M
nvme_connect $PEER 2 keep_alive_tmo=2
impair loss 100%
until [ "$(grep -c 'queue ended' /tmp/server_output)" = 3 ]; do usleep 20000; done
cat /tmp/server_output
grep 'queue=0.*keep alive timeout' /tmp/server_output
links del
verify_writes --filename=/dev/nvme0n1 --size=256k --bs=4k --iodepth=4
nvme_disconnect
stop_target
