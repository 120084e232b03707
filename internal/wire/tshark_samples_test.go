package wire_test

import (
	"encoding/hex"
	"fmt"
	"maps"

	"github.com/rdmaloop/rdmaloop/internal/wire"
)

// expected returns the values that tshark must find in s. Some are common to all samples.
func (s sample) expected() map[string]string {
	icrc := s.packet().Bytes()
	icrc = icrc[len(icrc)-wire.ICRCSize:]
	all := map[string]string{
		"infiniband.bth.opcode":    fmt.Sprint(uint8(s.op)),
		"infiniband.bth.se":        "0",
		"infiniband.bth.m":         "0",
		"infiniband.bth.a":         "0",
		"infiniband.bth.tver":      "0",
		"infiniband.bth.padcnt":    fmt.Sprint((4 - len(s.data)%4) % 4),
		"infiniband.bth.p_key":     "65535",
		"infiniband.bth.destqp":    "0x123456",
		"infiniband.bth.psn":       fmt.Sprint(0xabcdef),
		"infiniband.invariant.crc": "0x" + hex.EncodeToString(icrc),
		"_ws.malformed":            "",
	}
	if s.ip6 {
		all["ipv6.plen"] = fmt.Sprint(8 + len(s.packet().Bytes()))
	} else {
		// tshark's value for a correct checksum
		all["ip.checksum.status"] = "1"
	}
	if s.data != "" && s.want["infiniband.mad.method"] == "" {
		all["data.data"] = hex.EncodeToString(append([]byte(s.data), make([]byte, -len(s.data)&3)...))
	}
	maps.Copy(all, s.want)
	return all
}

// packetSamples returns a packet of each kind. All fields have different values, so a
// wrong offset is noticed.
func packetSamples() []sample {
	samples := []sample{bits}
	for _, e := range expectations {
		if wire.Opcode(e.code) == wire.CNP {
			continue // tshark can not decode it
		}
		s := sample{name: e.name, op: wire.Opcode(e.code), data: "payload"[:e.length()], fill: fillHeaders, want: map[string]string{}}
		for header, fields := range headerFields {
			if e.has(header) {
				maps.Copy(s.want, fields)
			}
		}
		samples = append(samples, s)
	}
	return samples
}

// bits is a sample in which the one-bit fields of the BTH are set. They are not set in
// any other sample.
var bits = sample{
	name: "bits", ip6: true, op: wire.SendMiddle, data: "payloads",
	fill: func(p wire.Packet) {
		p.BTH().SetSolicited(true)
		p.BTH()[1] |= 0x40 // MigReq
		p.BTH().SetAckReq(true)
		p.BTH().SetPKey(0x7fff)
	},
	want: map[string]string{
		"infiniband.bth.se":    "1",
		"infiniband.bth.m":     "1",
		"infiniband.bth.a":     "1",
		"infiniband.bth.p_key": "32767",
	},
}

func fillHeaders(p wire.Packet) {
	if h := p.DETH(); h != nil {
		h.Set(0xa1a2a3a4, 0xb1b2b3)
	}
	if h := p.RETH(); h != nil {
		h.Set(0x0102030405060708, 0xc1c2c3c4, 0xd1d2d3d4)
	}
	if h := p.AtomicETH(); h != nil {
		h.Set(0x1112131415161718, 0xe1e2e3e4, 0x2122232425262728, 0x3132333435363738)
	}
	if h := p.AETH(); h != nil {
		h.Set(wire.NAK(wire.NAKRemoteAccess), 0xf1f2f3)
	}
	if h := p.AtomicAckETH(); h != nil {
		h.Set(0x4142434445464748)
	}
	if h := p.ImmDt(); h != nil {
		h.Set(0x51525354)
	}
	if h := p.IETH(); h != nil {
		h.Set(0x61626364)
	}
}

// headerFields has tshark's values for the headers that fillHeaders writes.
var headerFields = map[string]map[string]string{
	"DETH": {
		"infiniband.deth.q_key": "0x00000000a1a2a3a4",
		"infiniband.deth.srcqp": "0x00b1b2b3",
	},
	"RETH": {
		"infiniband.reth.va":     "0x0102030405060708",
		"infiniband.reth.r_key":  "0xc1c2c3c4",
		"infiniband.reth.dmalen": fmt.Sprint(uint64(0xd1d2d3d4)),
	},
	"AtomicETH": {
		"infiniband.reth.va":          "0x1112131415161718",
		"infiniband.reth.r_key":       "0xe1e2e3e4",
		"infiniband.atomiceth.swapdt": fmt.Sprint(uint64(0x2122232425262728)),
		"infiniband.atomiceth.cmpdt":  fmt.Sprint(uint64(0x3132333435363738)),
	},
	"AETH": {
		"infiniband.aeth.syndrome.opcode":     "3",
		"infiniband.aeth.syndrome.error_code": "2",
		"infiniband.aeth.msn":                 fmt.Sprint(0xf1f2f3),
	},
	"AtomicAckETH": {"infiniband.atomicacketh.origremdt": fmt.Sprint(uint64(0x4142434445464748))},
	"ImmDt":        {"infiniband.immdt": "51525354"},
	"IETH":         {"infiniband.ieth": "61626364"},
}

// messageSamples returns a sample of each connection manager message.
func messageSamples() []sample {
	var samples []sample
	for _, m := range []struct {
		attr wire.Attribute
		message
		want map[string]string
	}{
		{wire.AttrREQ, vectorRequest(), requestFields},
		{wire.AttrREP, testREP(), replyFields},
		{wire.AttrRTU, testRTU(), map[string]string{
			"infiniband.cm.rtu.localcommid":  "0xa1a2a3a4",
			"infiniband.cm.rtu.remotecommid": "0xb1b2b3b4",
			"infiniband.cm.rtu.private":      hexOf(pattern(224)),
		}},
		{wire.AttrREJ, testREJ(), rejectFields},
		{wire.AttrDREQ, testDREQ(), map[string]string{
			"infiniband.cm.dreq.localcommid":  "0xa1a2a3a4",
			"infiniband.cm.dreq.remotecommid": "0xb1b2b3b4",
			"infiniband.cm.req.remoteqpneecn": "0xc1c2c3",
			"infiniband.cm.dreq.private":      hexOf(pattern(220)),
		}},
		{wire.AttrDREP, testDREP(), map[string]string{
			"infiniband.cm.drsp.localcommid":  "0xa1a2a3a4",
			"infiniband.cm.drsp.remotecommid": "0xb1b2b3b4",
			"infiniband.cm.drsp.private":      hexOf(pattern(224)),
		}},
		// In these messages, tshark decodes only the MAD header.
		{wire.AttrMRA, testMRA(), nil},
		{wire.AttrSIDRREQ, testSIDRREQ(), nil},
		{wire.AttrSIDRREP, testSIDRREP(), nil},
	} {
		samples = append(samples, messageSample(m.attr, m.message, m.want))
	}
	return samples
}

func messageSample(attr wire.Attribute, m message, fields map[string]string) sample {
	want := map[string]string{
		"infiniband.bth.destqp":        "0x000001",
		"infiniband.deth.q_key":        "0x0000000080010000",
		"infiniband.deth.srcqp":        "0x00000001",
		"infiniband.mad.baseversion":   "0x01",
		"infiniband.mad.mgmtclass":     "0x07",
		"infiniband.mad.classversion":  "0x02",
		"infiniband.mad.method":        "0x03",
		"infiniband.mad.status":        "0x0000",
		"infiniband.mad.transactionid": fmt.Sprintf("%#016x", uint64(tid)),
		"infiniband.mad.attributeid":   fmt.Sprintf("%#04x", uint16(attr)),
	}
	maps.Copy(want, fields)
	return sample{
		name: fmt.Sprintf("%T", m), op: wire.UDSendOnly, data: string(make([]byte, wire.MADSize)), want: want,
		fill: func(p wire.Packet) {
			p.BTH().SetDestQP(wire.GSIQPN)
			p.DETH().Set(wire.GSIQKey, wire.GSIQPN)
			m.Encode((*wire.MAD)(p.Payload()), tid)
		},
	}
}

// requestFields has the fields of vectorRequest. The flow label and the packet rate are
// missing, because tshark reads them from wrong offsets.
var requestFields = map[string]string{
	"infiniband.cm.req":                     "0x11223344",
	"infiniband.cm.req.serviceid.prefix":    "0000000001",
	"infiniband.cm.req.serviceid.protocol":  "0x06",
	"infiniband.cm.req.serviceid.dport":     "0x1d2f",
	"infiniband.cm.req.localcaguid":         "0x0212345678abcdef",
	"infiniband.cm.req.localqkey":           "0x00000000",
	"infiniband.cm.req.localqpn":            "0x000123",
	"infiniband.cm.req.responderres":        "0x04",
	"infiniband.cm.req.localeecn":           "0x000000",
	"infiniband.cm.req.initdepth":           "0x05",
	"infiniband.cm.req.remoteeecn":          "0x000000",
	"infiniband.cm.req.remoteresptout":      "0x14",
	"infiniband.cm.req.transpsvctype":       "0x00",
	"infiniband.cm.req.e2eflowctrl":         "0x01",
	"infiniband.cm.req.startpsn":            "0xabcdef",
	"infiniband.cm.req.localresptout":       "0x14",
	"infiniband.cm.req.retrcount":           "0x07",
	"infiniband.cm.req.pkey":                "0xffff",
	"infiniband.cm.req.pppmtu":              "0x03",
	"infiniband.cm.req.rdcexist":            "0x00",
	"infiniband.cm.req.rnrretrcount":        "0x06",
	"infiniband.cm.req.maxcmretr":           "0x0f",
	"infiniband.cm.req.srq":                 "0x01",
	"infiniband.cm.req.ext_transport":       "0x00",
	"infiniband.cm.req.prim_locallid":       "65535",
	"infiniband.cm.req.prim_remotelid":      "65535",
	"infiniband.cm.req.prim_localgid_ipv4":  "10.77.0.1",
	"infiniband.cm.req.prim_remotegid_ipv4": "10.77.0.2",
	"infiniband.cm.req.prim_tfcclass":       "0x68",
	"infiniband.cm.req.prim_hoplim":         "0x40",
	"infiniband.cm.req.prim_sl":             "0x03",
	"infiniband.cm.req.prim_subnetlocal":    "0x00",
	"infiniband.cm.req.prim_localacktout":   "0x13",
	"infiniband.cm.req.alt_locallid":        "0",
	"infiniband.cm.req.alt_localgid":        "00000000000000000000000000000000",
	"infiniband.cm.req.alt_localacktout":    "0x00",
	"infiniband.cm.req.ip_cm.majv":          "0x00",
	"infiniband.cm.req.ip_cm.minv":          "0x00",
	"infiniband.cm.req.ip_cm.ipv":           "0x04",
	"infiniband.cm.req.ip_cm.sport":         "0x9c40",
	"infiniband.cm.req.ip_cm.sip4":          "10.77.0.1",
	"infiniband.cm.req.ip_cm.dip4":          "10.77.0.2",
	"infiniband.cm.req.ip_cm.private":       hexOf(append([]byte("hello"), make([]byte, 51)...)),
}

// replyFields has the fields of testREP.
var replyFields = map[string]string{
	"infiniband.cm.rep":              "0xa1a2a3a4",
	"infiniband.cm.rep.remotecommid": "0xb1b2b3b4",
	"infiniband.cm.rep.localqkey":    "0xc1c2c3c4",
	"infiniband.cm.rep.localqpn":     "0xd1d2d3",
	"infiniband.cm.rep.localeecn":    "0x000000",
	"infiniband.cm.rep.startpsn":     "0xe1e2e3",
	"infiniband.cm.rep.respres":      "0xf1",
	"infiniband.cm.rep.initdepth":    "0xf2",
	"infiniband.cm.rep.tgtackdelay":  "0x0f",
	"infiniband.cm.rep.failoveracc":  "0x02",
	"infiniband.cm.rep.e2eflowctrl":  "0x01",
	"infiniband.cm.rep.rnrretrcount": "0x05",
	"infiniband.cm.rep.srq":          "0x01",
	"infiniband.cm.rep.localcaguid":  "0x0102030405060708",
	"infiniband.cm.rep.private":      hexOf(pattern(196)),
}

// rejectFields has the fields of testREJ in the form in which tshark prints them.
var rejectFields = map[string]string{
	"infiniband.cm.rej.localcommid":  "0xa1a2a3a4",
	"infiniband.cm.rej.remotecommid": "0xb1b2b3b4",
	"infiniband.cm.rej.msgrej":       "0x02",
	"infiniband.cm.rej.rejinfolen":   "0x48",
	"infiniband.cm.rej.reason":       "0x011c",
	"infiniband.cm.rej.ari":          hexOf(pattern(72)),
	"infiniband.cm.rej.private":      hexOf(pattern(148)),
}
