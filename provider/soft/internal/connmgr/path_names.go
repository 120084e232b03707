package connmgr

// Names of the paths in cm.ServedAddr and in the configuration.
const (
	LocalPath = "local"
	WirePath  = "wire"
)
