package main

// baseline is the peer that one would use without RDMA.
const baseline = "gnet"

// floorOf is the peer that does on a path the least that can be done: memory that
// two processors share, or datagrams through the kernel. On a real device there is
// none.
func floorOf(path string) string {
	switch path {
	case "local", "posix", "memory":
		return "cacheline"
	case "wire", "tcp", "udp":
		return "rawudp"
	}
	return ""
}

// same is a case without the one who carries it out.
func (c Case) same() Case {
	return Case{Workload: c.Workload, Size: c.Size, InFlight: c.InFlight, Connections: c.Connections}
}

// compared fills in the ratios of rows that are of one run.
func compared(rows []Row) []Row {
	type who struct {
		peer string
		Case
	}
	index := map[who]Row{}
	for _, r := range rows {
		at := who{r.Peer, r.same()}
		if _, taken := index[at]; !taken {
			index[at] = r
		}
	}
	for i := range rows {
		r := &rows[i]
		r.RatioToGnet = ratio(*r, index[who{baseline, r.same()}])
		r.RatioToFloor = ratio(*r, index[who{floorOf(r.Path), r.same()}])
	}
	return rows
}

// ratio is a p50 in multiples of another one, or a rate where times are not known.
func ratio(r, other Row) float64 {
	switch {
	case r.P50 > 0 && other.P50 > 0:
		return r.P50 / other.P50
	case r.P50 == 0 && other.P50 == 0 && other.MsgsPerSec > 0:
		return r.MsgsPerSec / other.MsgsPerSec
	}
	return 0
}
