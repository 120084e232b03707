# class: quick
# rstream at both ends, and then against package stream: 1,000 transfers of 1,000 bytes.
serve rstream -S 1000
rstream_client $ADDR -S 1000
wait_server
rstream_both '' -S 1000
