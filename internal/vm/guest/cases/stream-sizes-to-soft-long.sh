# class: long
# rstream without options against the soft device: four sizes on a connection for round
# trips, and on another one for throughput.
limit=850
serve_in_peer $go rstream $soft -listen $PEER:7471 -sizes four -verify
rstream_client $PEER -T v
wait_server
