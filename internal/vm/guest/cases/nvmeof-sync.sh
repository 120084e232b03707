# class: full
# Writes with fsync and with O_SYNC, and discards of a mounted file system and of fstrim.
sync_and_discard() {
	$serve_target -size 128M
	nvme_connect $target 2
	make_file_system -o discard
	verify_writes --directory=/mnt --size=1M --bs=4k --iodepth=4 --fsync=8
	verify_writes --directory=/mnt --size=512k --bs=4k --sync=1
	dd if=/dev/urandom of=/mnt/large bs=1M count=16 conv=fsync 2>/dev/null
	full=$(du -k $disk | cut -f 1)
	rm /mnt/large /mnt/verify*
	sync
	# The file system issues the discards after the commit, in the background.
	for _ in $(seq 200); do
		discarded=$(du -k $disk | cut -f 1)
		[ $discarded -ge $((full - 16000)) ] || break
		sleep 0.1
	done
	fstrim /mnt
	trimmed=$(du -k $disk | cut -f 1)
	echo "KiB of the disk's file: $full, after the removal $discarded, after fstrim $trimmed"
	[ $discarded -lt $((full - 16000)) ]
	[ $trimmed -le $discarded ]
	check_structure
	check_no_errors
	nvme_disconnect
	stop_target
}
on_both_devices sync_and_discard
