# class: long
# All sizes of the option -S all. That option itself makes so many transfers of each size
# that two C programs need more than five minutes here.
sizes=64
for size in 128 256 512 1024 2048 4096 8192 16384 32768 65536 131072 262144 524288 1048576 2097152 4194304; do
	sizes="$sizes $size $((size + size / 2))"
done
for size in $sizes; do
	rstream_both "-verify -size $size -count 5" -T v -S $size -C 5
done
