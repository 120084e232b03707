package wire_test
import ("testing";"os")
func TestZZ(t *testing.T){ os.WriteFile("/tmp/s.pcap", pcap(append(packetSamples(),messageSamples()...)), 0o600)}
