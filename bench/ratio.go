package main

// baseline is the peer that an application would use without RDMA.
const baseline = "gnet"

// floorOf returns the peer that is the lower bound for a path: memory that two
// processors share, or datagrams through the kernel. There is none for a real device.
func floorOf(path string) string {
	switch path {
	case "local", "posix", "memory":
		return "cacheline"
	case "wire", "tcp", "udp":
		return "rawudp"
	}
	return ""
}

// withoutPeer returns the case without its peer, path and mode.
func (c Case) withoutPeer() Case {
	return Case{Workload: c.Workload, Size: c.Size, InFlight: c.InFlight, Connections: c.Connections}
}

// withRatios fills in the ratios of the rows of one run.
func withRatios(rows []Row) []Row {
	type key struct {
		peer string
		Case
	}
	index := map[key]Row{}
	for _, r := range rows {
		k := key{r.Peer, r.withoutPeer()}
		if _, taken := index[k]; !taken {
			index[k] = r
		}
	}
	for i := range rows {
		r := &rows[i]
		r.RatioToGnet = ratio(*r, index[key{baseline, r.withoutPeer()}])
		r.RatioToFloor = ratio(*r, index[key{floorOf(r.Path), r.withoutPeer()}])
	}
	return rows
}

// ratio returns a p50 as a multiple of another one, or a rate if times are not known.
func ratio(r, other Row) float64 {
	switch {
	case r.P50 > 0 && other.P50 > 0:
		return r.P50 / other.P50
	case r.P50 == 0 && other.P50 == 0 && other.MsgsPerSec > 0:
		return r.MsgsPerSec / other.MsgsPerSec
	}
	return 0
}
