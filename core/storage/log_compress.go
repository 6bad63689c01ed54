package storage

import (
	"errors"
	"fmt"
	"sync"

	"github.com/millstream-io/millstream/core/record"
)

// Compression is what a topic's batches are stored with: compression.type and the level of it. The
// zero value stores each batch as its producer sent it.
type Compression struct {
	// Recode says that batches of other codecs than Codec are compressed anew.
	Recode bool
	Codec  record.Codec
	Level  int // of Codec
}

// recodeBuffers hold batches that were compressed anew, until they are written.
var recodeBuffers sync.Pool // *[]byte

// maxRecodeBuffer bounds what the pool keeps, in bytes.
const maxRecodeBuffer = 4 << 20

// maxPlainBytes bounds what the records of one batch may take uncompressed, in bytes.
func maxPlainBytes(c *Config) int { return max(16*c.MaxMessageBytes, 16<<20) }

// recode returns a client's batch as the topic stores it, and what gives its buffer back. Offsets,
// times, sequences and the rest of the header stay as they are; the size is checked anew, as Kafka
// does.
func recode(b record.Batch, c *Config) (record.Batch, func(), error) {
	buf, _ := recodeBuffers.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	done := func() {
		if cap(*buf) <= maxRecodeBuffer {
			recodeBuffers.Put(buf)
		}
	}
	out, err := b.Recode((*buf)[:0], c.Compression.Codec, c.Compression.Level, maxPlainBytes(c))
	if err == nil {
		*buf = out
		err = checkSize(len(out), c)
	} else if errors.Is(err, record.ErrTooLarge) {
		err = fmt.Errorf("%w: %w", ErrTooLarge, err)
	} else {
		err = invalidBatch("%v", err)
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return out, done, nil
}
