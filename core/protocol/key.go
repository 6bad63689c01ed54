package protocol

import "github.com/twmb/franz-go/pkg/kmsg"

// Numbers of the APIs that are named in code. All of them are in Kafka's protocol guide.
const (
	KeyProduce          int16 = 0
	KeyFetch            int16 = 1
	KeyMetadata         int16 = 3
	KeyJoinGroup        int16 = 11
	KeySaslHandshake    int16 = 17
	KeyApiVersions      int16 = 18
	KeySaslAuthenticate int16 = 36
)

// KeyName returns the name of an API for logs and metrics, "Unknown" when it has none.
func KeyName(key int16) string { return kmsg.NameForKey(key) }

// FlexibleFrom returns the first flexible version of key (KIP-482), or -1 when none is.
func FlexibleFrom(key int16) int16 {
	req := kmsg.RequestForKey(key)
	if req == nil {
		return -1
	}
	for v := range req.MaxVersion() + 1 {
		if req.SetVersion(v); req.IsFlexible() {
			return v
		}
	}
	return -1
}
