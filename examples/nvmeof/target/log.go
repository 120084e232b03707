package target

import (
	"encoding/binary"
	"strconv"

	"github.com/rdmaloop/rdmaloop/examples/nvmeof/nvme"
)

// smartSize is the length in bytes of the SMART log page.
const smartSize = 512

// planLog decodes the command Get Log Page. See plan.
func (q *queue) planLog(c *command) (n int, status nvme.Status) {
	r := c.sqe().LogRequest()
	if r.Len > maxData {
		return 0, nvme.InvalidField.Final()
	}
	c.dir, c.work = toHost, q.getLog
	return int(r.Len), nvme.Success
}

// getLog fills the data of the command with a part of a log page.
func (q *queue) getLog(c *command) nvme.Status {
	r := c.sqe().LogRequest()
	page, status := q.logPage(r.ID)
	switch {
	case status != nvme.Success:
		return status
	case r.Offset%4 != 0 || r.Offset > uint64(len(page)):
		return nvme.InvalidField.Final()
	}
	return fill(c, page[r.Offset:])
}

// logPage returns a whole log page. If the host asks for more bytes, getLog adds zeros.
func (q *queue) logPage(id uint8) ([]byte, nvme.Status) {
	discovery := q.controller.subsystem == nil
	switch {
	case discovery && id == nvme.LogDiscovery:
		return q.discoveryLog(), nvme.Success
	case discovery:
	case id == nvme.LogSMART:
		page := make([]byte, smartSize)
		const roomTemperature = 293 // kelvin; the target does not measure it
		binary.LittleEndian.PutUint16(page[1:], roomTemperature)
		return page, nvme.Success
	case id == nvme.LogEffects:
		return nvme.AppendEffects(nil, adminOpcodes, ioOpcodes), nvme.Success
	case id == nvme.LogErrors, id == nvme.LogFirmware, id == nvme.LogNamespaces:
		return make([]byte, 4096), nvme.Success
	}
	return nil, nvme.InvalidLogPage.Final()
}

// discoveryLog returns the discovery log page: the subsystems that the host may use, at
// the address to which it has connected.
func (q *queue) discoveryLog() []byte {
	addr := q.conn.Info().LocalAddr
	var entries []nvme.DiscoveryEntry
	for _, s := range q.target.cfg.Subsystems {
		if !s.allows(q.controller.host) {
			continue
		}
		entries = append(entries, nvme.DiscoveryEntry{
			IPv6: !addr.Addr().Unmap().Is4(), Port: 1, Subsystem: s.NQN, MaxAdmin: adminSize,
			Service: strconv.Itoa(int(addr.Port())), Address: addr.Addr().Unmap().String(),
		})
	}
	return nvme.AppendDiscoveryLog(nil, 1, entries)
}
