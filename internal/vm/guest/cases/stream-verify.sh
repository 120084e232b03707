# class: full
# Every byte is checked at both ends: small and large transfers, and transfers larger than
# the buffers.
rstream_both '-verify -size 1 -count 2000 -iterations 3' -T v -S 1 -C 2000 -I 3
rstream_both '-verify -size 4097 -count 100 -iterations 10' -T v -S 4097 -C 100 -I 10
rstream_both '-verify -size 3000000 -count 2 -iterations 2' -T v -S 3000000 -C 2 -I 2
