# class: full
# Another port, and names that rdma_getaddrinfo(3) resolves.
port=7479
rstream_both '' -S 1000 -p 7479
rstream_both '' -S 1000 -p 7479 -T r
