package nvme

import "fmt"

// Status is the status of a completed command: bits 7:0 are the code, and bits 10:8 the
// type of the code. Source: Base, 3.3.3.2.1.
type Status uint16

// DNR is the bit "do not retry" of a Status. If a command fails and its status does not
// have this bit, the host may send the command again.
const DNR Status = 0x4000

// Statuses of commands. A target adds DNR to each failure that a repetition would not
// change.
const (
	Success            Status = 0x000
	InvalidOpcode      Status = 0x001
	InvalidField       Status = 0x002
	DataTransferError  Status = 0x004
	InternalError      Status = 0x006
	Aborted            Status = 0x007
	InvalidNamespace   Status = 0x00B
	SequenceError      Status = 0x00C
	InvalidSGLCount    Status = 0x00E
	DataLengthInvalid  Status = 0x00F
	InvalidSGLType     Status = 0x011
	InvalidSGLOffset   Status = 0x016
	KeepAliveInvalid   Status = 0x01A
	WriteProtected     Status = 0x020
	OutOfRange         Status = 0x080
	TooManyEvents      Status = 0x105
	InvalidLogPage     Status = 0x109
	ConnectFormat      Status = 0x180
	ControllerBusy     Status = 0x181
	ConnectParam       Status = 0x182
	ConnectHostRefused Status = 0x184
	WriteFault         Status = 0x280
	ReadError          Status = 0x281
	CompareFailure     Status = 0x285
)

// Final returns the status with the bit DNR.
func (s Status) Final() Status { return s | DNR }

// Error returns the status as text. A Status that is not Success can be used as an error.
func (s Status) Error() string {
	if text, ok := statusText[s&^DNR]; ok {
		return "nvme: " + text
	}
	return fmt.Sprintf("nvme: status %#x", uint16(s))
}

var statusText = map[Status]string{
	Success:            "success",
	InvalidOpcode:      "invalid opcode",
	InvalidField:       "invalid field in command",
	DataTransferError:  "data transfer error",
	InternalError:      "internal error",
	Aborted:            "aborted",
	InvalidNamespace:   "invalid namespace",
	SequenceError:      "command sequence error",
	InvalidSGLCount:    "invalid number of SGL descriptors",
	DataLengthInvalid:  "data length invalid",
	InvalidSGLType:     "SGL descriptor type invalid",
	InvalidSGLOffset:   "SGL offset invalid",
	KeepAliveInvalid:   "keep alive timeout invalid",
	WriteProtected:     "namespace is write protected",
	OutOfRange:         "LBA out of range",
	TooManyEvents:      "too many asynchronous event requests",
	InvalidLogPage:     "invalid log page",
	ConnectFormat:      "incompatible format of the connect data",
	ControllerBusy:     "no free controller",
	ConnectParam:       "invalid parameter of connect",
	ConnectHostRefused: "host not allowed",
	WriteFault:         "write fault",
	ReadError:          "unrecovered read error",
	CompareFailure:     "compare failure",
}
