# The kernel's NVMe host mounts a file system from the soft device's target, over the wire
# path.
serve_disk_in_peer -size 256M
nvme_connect $PEER 2
grep . /sys/class/nvme/nvme0/*queue_count /sys/class/nvme/nvme0/transport
/usr/bin/mke2fs -q -F -t ext4 /dev/nvme0n1
mkdir -p /mnt
mount -t ext4 /dev/nvme0n1 /mnt
cp -r /lib /mnt/lib
fio --name=check --directory=/mnt --size=16M --rw=randwrite --bsrange=4k-1M --ioengine=libaio --iodepth=8 --direct=1 \
	--verify=crc32c --output-format=terse | cut -c -100
umount /mnt
/usr/bin/e2fsck -fn /dev/nvme0n1
nvme_disconnect
stop_server
