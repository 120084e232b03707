package main

// baseline is the peer for RatioToGnet. It stands for an application without RDMA.
const baseline = "gnet"

// floorOf returns the peer that gives a lower bound for the time of a case, or "" if
// there is none.
func floorOf(c Case) string {
	switch c.Path {
	case "local", "posix", ucxTagPath, "memory":
		if c.Workload == workStream || c.Size > maxCacheLine {
			return "memcpy"
		}
		return "cacheline"
	case "wire", "tcp", "udp":
		return "rawudp"
	}
	return ""
}

// withoutPeer returns the case without peer, path and mode. Cases that are then equal
// can be compared.
func (c Case) withoutPeer() Case {
	return Case{Workload: c.Workload, Size: c.Size, InFlight: c.InFlight, Connections: c.Connections, Loops: c.Loops}
}

// variant returns only peer, path and mode of the case.
func (c Case) variant() Case { return Case{Peer: c.Peer, Path: c.Path, Mode: c.Mode} }

// withRatios sets Scaling, RatioToGnet and RatioToFloor in the rows of one run.
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
	single := map[Case]float64{} // rates of the rows with one loop
	for _, r := range rows {
		if r.Loops == 1 {
			single[r.variant()] = r.MsgsPerSec
		}
	}
	for i := range rows {
		r := &rows[i]
		if rate := single[r.variant()]; r.Loops > 0 && rate > 0 {
			r.Scaling = r.MsgsPerSec / rate / float64(r.Loops)
		}
		r.RatioToGnet = ratio(*r, index[key{baseline, r.withoutPeer()}])
		r.RatioToFloor = ratio(*r, index[key{floorOf(r.Case), r.withoutPeer()}])
	}
	return rows
}

// ratio returns the p50 of r divided by the p50 of base. If neither row has a p50, it
// divides the rates. If the rows can not be compared, ratio() returns 0.
func ratio(r, base Row) float64 {
	switch {
	case r.State != base.State || r.State == stateMixed:
		return 0
	case r.P50 > 0 && base.P50 > 0:
		return r.P50 / base.P50
	case r.P50 == 0 && base.P50 == 0 && base.MsgsPerSec > 0:
		return r.MsgsPerSec / base.MsgsPerSec
	}
	return 0
}
