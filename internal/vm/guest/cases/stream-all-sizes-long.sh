# All sizes of rstream, up to 6 MiB.
rstream_device '-sizes all' -S all
rstream_soft '-sizes all' -S all
