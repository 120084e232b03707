# class: full
# Keepalive probes of rstream, which are WRITEs of zero bytes.
rstream_both '-verify -iterations 5' -T v -S 1000 -I 5 -k 1
