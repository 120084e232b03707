package connmgr

// Names of the paths to peers, in cm.ServedAddr and in the configuration of the device.
const (
	LocalPath = "local"
	WirePath  = "wire"
)
