package pluginpb

import "errors"

// Errors of Decoder, Decode, Joiner and the encoder's users.
var (
	// ErrBadFrame says that bytes are not a frame of a version this package reads.
	ErrBadFrame = errors.New("bad plugin frame")
	// ErrFrameTooLarge says that a frame passes MaxFrameBytes.
	ErrFrameTooLarge = errors.New("plugin frame above 64 MiB")
)

// Classes of RecordError.
const (
	// ClassPlugin is an error the operator or sink returned for a record.
	ClassPlugin = "plugin"
	// ClassPluginCrash is given by the host to a record that ends the plugin process.
	ClassPluginCrash = "plugin_crash"
	// ClassDecode is a record a source could not decode.
	ClassDecode = "decode"
	// ClassTooLarge is a record that does not fit in a frame.
	ClassTooLarge = "too_large"
)
