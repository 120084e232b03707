package nvme

// Fields of the commands Property Get and Property Set, as offsets for Command.Uint8,
// Uint32 and Uint64. Source: Base, 6.5 and 6.6.
const (
	PropertyAttrAt   = 40 // size of the property, 8 bits: 0 for 4 bytes, 1 for 8 bytes
	PropertyOffsetAt = 44 // offset of the property, 32 bits: see PropertyCAP
	PropertyValueAt  = 48 // value of the command Property Set, 64 bits
)

// Offsets of the properties of a controller. Source: Base, 3.1.3.
const (
	PropertyCAP  = 0x00 // capabilities, 8 bytes
	PropertyVS   = 0x08 // version, 4 bytes
	PropertyCC   = 0x14 // configuration, 4 bytes
	PropertyCSTS = 0x1C // status, 4 bytes
)

// Version14 is the property VS of a controller of version 1.4.
const Version14 = 0x00010400

// Capabilities returns the property CAP of a controller with queues of maxQueue commands
// at most, pages of 4 KiB and the NVM command set. The controller becomes ready within
// 7.5 seconds.
func Capabilities(maxQueue int) uint64 {
	const contiguousQueues, timeout, nvmCommandSet = 1 << 16, 15 << 24, 1 << 37
	return uint64(maxQueue-1) | contiguousQueues | timeout | nvmCommandSet
}

// Config is the property CC of a controller. Source: Base, 3.1.3.5.
type Config uint32

// Enable reports whether the host wants the controller to be ready.
func (c Config) Enable() bool { return c&1 != 0 }

// Shutdown reports whether the host asks for a shutdown.
func (c Config) Shutdown() bool { return c>>14&3 != 0 }

// pageSizeMask, arbitrationMask and commandSetMask are fields of Config.
const (
	commandSetMask  = 7 << 4
	pageSizeMask    = 15 << 7
	arbitrationMask = 7 << 11

	allCommandSets = 6 << 4 // value of the field commandSetMask: all I/O command sets
)

// Supported reports whether a controller with pages of 4 KiB can become ready with this
// configuration. The entry sizes of queues count only for a controller that has I/O
// queues.
func (c Config) Supported(ioQueues bool) bool {
	const entrySizes, mask = 4<<20 | 6<<16, 0xFF << 16
	if ioQueues && c&mask != entrySizes {
		return false
	}
	set := c & commandSetMask
	return c&(pageSizeMask|arbitrationMask) == 0 && (set == 0 || set == allCommandSets)
}

// Bits of the property CSTS. Source: Base, 3.1.3.6.
const (
	StatusReady            = 1 << 0
	StatusFatal            = 1 << 1
	StatusShutdownComplete = 2 << 2
)
