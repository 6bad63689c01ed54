package record

import "errors"

// Errors of Next, Batch and Iterator.
var (
	// ErrShort says that the bytes end before the batch does, as the last batch of a fetch may.
	ErrShort = errors.New("batch is cut short")
	// ErrCorrupt says that bytes break the format or their checksum.
	ErrCorrupt = errors.New("corrupt batch")
	// ErrUnsupportedMagic says that a batch is not of format version 2.
	ErrUnsupportedMagic = errors.New("unsupported batch format version, only 2 is supported")
	// ErrTooLarge says that a batch or its decompressed records pass the given limit.
	ErrTooLarge = errors.New("records larger than the limit")
	// ErrUnsupportedCodec says that the compression codec in the attributes is not known.
	ErrUnsupportedCodec = errors.New("unsupported compression codec")
)
