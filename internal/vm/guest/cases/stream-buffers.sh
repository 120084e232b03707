# class: full
# Buffers of several sizes, the same at both ends and different ones.
rstream_both '-verify -size 100000 -count 10 -iterations 2 -buffer 4096' -T v -S 100000 -C 10 -I 2 -B 4096
rstream_both '-verify -size 100000 -count 10 -iterations 2 -buffer 1000000' -T v -S 100000 -C 10 -I 2 -B 1000
rstream_both '-verify -size 10000 -count 5 -iterations 2 -buffer 128' -T v -S 10000 -C 5 -I 2 -B 1000000
