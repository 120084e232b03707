# class: full
# Data is correct although packets are lost. The host's module is loaded as README.md of
# examples/nvmeof says for such networks.
load_host register_always=N
serve_disk_in_peer -size 64M
nvme_connect $PEER 2
for loss in '0.1 8M' '1 2M'; do
	set -- $loss
	links replace netem loss $1%
	verify_writes --filename=/dev/nvme0n1 --size=$2 --bs=4k --iodepth=16
	/usr/bin/tc -s qdisc show dev v0 | grep dropped
done
links del
check_no_errors
nvme_disconnect
stop_target
load_host
