# class: full
# rstream with blocking calls.
rstream_both '-verify -size 5000 -count 200 -iterations 5' -T v -T b -S 5000 -C 200 -I 5
