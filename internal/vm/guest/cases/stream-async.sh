# class: full
# rstream waits with poll(2), with blocking calls and without.
rstream_both '-verify -size 5000 -count 50 -iterations 5' -T v -T a -S 5000 -C 50 -I 5
rstream_both '-verify -size 5000 -count 50 -iterations 5' -T v -T a -T b -S 5000 -C 50 -I 5
