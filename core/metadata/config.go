package metadata

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ConfigType is the type of a setting's value, with the numbers of DescribeConfigs.
type ConfigType int8

// The types in use.
const (
	Boolean  ConfigType = 1
	String   ConfigType = 2
	Int      ConfigType = 3
	Short    ConfigType = 4
	Long     ConfigType = 5
	Double   ConfigType = 6
	List     ConfigType = 7 // comma separated
	Class    ConfigType = 8
	Password ConfigType = 9
)

// ConfigDef defines a setting of topics or brokers.
type ConfigDef struct {
	Name    string
	Type    ConfigType
	Default string // "" where NoDefault is set, and for empty strings and lists
	Doc     string // for users
	// BrokerSynonyms of a topic setting are the broker settings that give its default, the first
	// that is set wins.
	BrokerSynonyms []string
	Enum           []string // allowed values, of each element for a List; nil = any
	Min, Max       float64  // bounds of a number, both included; both 0 = those of the type
	NoDefault      bool     // null unless set
	ReadOnly       bool     // a broker setting that only a restart changes
	Sensitive      bool     // never shown
	Hidden         bool     // accepted, not listed
	Inert          string   // why it is kept and shown but changes nothing; "" = it does
	// Check finds what is wrong with a normalized value beyond all of the above; "" = nothing.
	Check func(value string) string
}

// DisplayDoc returns Doc and, where the setting changes nothing, why that is so.
func (d *ConfigDef) DisplayDoc() string {
	if d.Inert == "" {
		return d.Doc
	}
	return d.Doc + " Kept and shown, but it changes nothing: " + d.Inert + "."
}

// Normalize returns a value as it is kept: without blanks around it or its elements, a number in
// its shortest form, a boolean in small letters. What does not parse stays as it is.
func (d *ConfigDef) Normalize(value string) string {
	trimmed := strings.TrimSpace(value)
	switch d.Type {
	case Boolean:
		return strings.ToLower(trimmed)
	case Int, Short, Long:
		if n, err := strconv.ParseInt(trimmed, 10, 64); err == nil {
			return strconv.FormatInt(n, 10)
		}
		return trimmed
	case Double, Class:
		return trimmed
	case List:
		elements := strings.Split(trimmed, ",")
		for i := range elements {
			elements[i] = strings.TrimSpace(elements[i])
		}
		return strings.Join(elements, ",")
	}
	return value
}

// Validate checks a value's form and range. The error is a *ConfigError.
func (d *ConfigDef) Validate(value string) error {
	reason := d.fault(d.Normalize(value))
	if reason == "" {
		return nil
	}
	return &ConfigError{Name: d.Name, Reason: reason}
}

// fault returns what is wrong with a normalized value, or "".
func (d *ConfigDef) fault(value string) string {
	var reason string
	switch d.Type {
	case Boolean:
		if value != "true" && value != "false" {
			reason = fmt.Sprintf("%q is not true or false", value)
		}
	case Int, Short, Long, Double:
		reason = d.checkNumber(value)
	case List:
		reason = d.checkElements(value)
	default:
		if d.Enum != nil && !slices.Contains(d.Enum, value) {
			reason = fmt.Sprintf("%q is not one of %s", value, strings.Join(d.Enum, ", "))
		}
	}
	if reason == "" && d.Check != nil {
		reason = d.Check(value)
	}
	return reason
}

// checkElements returns what is wrong with a list, or "". The empty list is none of its elements'
// fault.
func (d *ConfigDef) checkElements(value string) string {
	if value == "" {
		return ""
	}
	for element := range strings.SplitSeq(value, ",") {
		switch {
		case element == "":
			return "a list has no empty elements"
		case d.Enum != nil && !slices.Contains(d.Enum, element):
			return fmt.Sprintf("%q is not one of %s", element, strings.Join(d.Enum, ", "))
		}
	}
	return ""
}

// checkNumber returns what is wrong with a number, or "".
func (d *ConfigDef) checkNumber(value string) string {
	var number float64
	if d.Type == Double {
		n, err := strconv.ParseFloat(value, 64)
		if err != nil || math.IsNaN(n) {
			return fmt.Sprintf("%q is not a number", value)
		}
		number = n
	} else {
		bits := map[ConfigType]int{Short: 16, Int: 32, Long: 64}[d.Type]
		n, err := strconv.ParseInt(value, 10, bits)
		if err != nil {
			return fmt.Sprintf("%q is not a whole number of %d bits", value, bits)
		}
		number = float64(n)
	}
	switch {
	case d.Min == 0 && d.Max == 0:
	case number < d.Min:
		return fmt.Sprintf("%s is less than %v", value, strconv.FormatFloat(d.Min, 'f', -1, 64))
	case number > d.Max:
		return fmt.Sprintf("%s is more than %v", value, strconv.FormatFloat(d.Max, 'f', -1, 64))
	}
	return ""
}
