# rstream without options: four sizes on a connection for round trips, and on another one
# for throughput.
rstream_both '-sizes four -verify' -T v
