package main

// placement gives each loop a processor of its own: the client's loops take the
// first of the list, the server's those after them. Without -cpus loops are
// pinned only in busy mode, where two of them on one processor would starve each
// other, and only when there are two processors or more.
func (o *options) placement() (client, server []int) {
	cpus := o.cpus
	if cpus == nil && o.mode == "busy" {
		cpus = allowedCPUs()
		if len(cpus) < 2 {
			return nil, nil
		}
	}
	if cpus == nil {
		return nil, nil
	}
	for i := range o.loops {
		client = append(client, cpus[i%len(cpus)])
		server = append(server, cpus[(o.loops+i)%len(cpus)])
	}
	return client, server
}
