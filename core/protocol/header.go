package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Errors of reading a frame. Each of them means that the connection cannot be used further.
var (
	// ErrMalformed tells that bytes do not follow the schema of the request they claim to be.
	ErrMalformed = errors.New("malformed request")
	// ErrUnsupported tells that the api key, or its version, is unknown here.
	ErrUnsupported = errors.New("unsupported api key or version")
)

// Header is the part in front of every request body.
type Header struct {
	// Key is the number of the API, as in Kafka's protocol guide.
	Key int16
	// Version is the version of that API the client speaks.
	Version int16
	// CorrelationID is echoed in the answer.
	CorrelationID int32
	// ClientID is what the client calls itself; "" when it is null. It aliases the frame.
	ClientID []byte
}

// headerFixed is the size of the fields before the client id.
const headerFixed = 2 + 2 + 4

// ParseHeader splits frame, which excludes the size field, into its header and its body.
// flexible tells whether (key, version) has a tag buffer at the end of the header.
func ParseHeader(
	frame []byte, flexible func(key, version int16) bool,
) (Header, []byte, error) {
	var h Header
	if len(frame) < headerFixed {
		return h, nil, fmt.Errorf("read header: %d bytes, need %d: %w",
			len(frame), headerFixed, ErrMalformed)
	}
	h.Key = int16(binary.BigEndian.Uint16(frame))
	h.Version = int16(binary.BigEndian.Uint16(frame[2:]))
	h.CorrelationID = int32(binary.BigEndian.Uint32(frame[4:]))
	r := Reader{Src: frame[headerFixed:]}
	// A negative length is null, as Kafka reads it. A header of version 0, without any client
	// id, belongs to ControlledShutdown v0 only, which no client sends.
	h.ClientID = r.NullableString(false)
	if flexible(h.Key, h.Version) {
		r.SkipTags()
	}
	if !r.Ok() {
		return h, nil, fmt.Errorf("read header of api key %d: %w", h.Key, ErrMalformed)
	}
	return h, r.Src, nil
}

// AppendResponseHeader appends the size field, still zero, and the response header.
// [FinishFrame] fills in the size.
func AppendResponseHeader(dst []byte, key int16, correlationID int32, flexible bool) []byte {
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	// The header of an ApiVersions answer never has tags, so that a client of any age can read
	// it (KIP-511).
	if flexible && key != KeyApiVersions {
		dst = append(dst, 0)
	}
	return dst
}

// FinishFrame writes the size of the frame that starts at start in b. extra counts bytes of the
// frame that are not in b.
func FinishFrame(b []byte, start, extra int) {
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4+extra))
}

// DecodeRequest decodes body into the kmsg struct of (key, version).
// Strings are copied, byte slices alias body.
func DecodeRequest(key, version int16, body []byte) (kmsg.Request, error) {
	req := kmsg.RequestForKey(key)
	if req == nil || version < 0 || version > req.MaxVersion() {
		return nil, fmt.Errorf("decode api key %d version %d: %w", key, version, ErrUnsupported)
	}
	req.SetVersion(version)
	if err := req.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("decode %s v%d: %w: %w", KeyName(key), version, err, ErrMalformed)
	}
	return req, nil
}
