# class: full
# Messages of up to 4 MiB arrive although packets are lost, repeated and out of order.
impair delay 1ms reorder 99% loss 0.5% duplicate 0.5%
reactor_pair TestReactorLong
serve_in_peer $soft_device PAIR_LISTEN=$NEAR:7472 $side
tested $in_far $soft_device PAIR_CONNECT=$NEAR:7472 $side
stop_server
grown duplicate_request completer_retry_err
