# class: full
impair delay 1ms reorder 98%
pairtest connection
pairtest traffic
send_both bw 4096
grown rcvd_seq_err duplicate_request
