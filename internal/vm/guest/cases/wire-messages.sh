# class: full
# Messages of up to 4 MiB in each way that package reactor has, and WRITEs with immediate
# data to receives without buffers.
reactor_pair TestReactorLong
reactor_pair TestReactorImmediates
