package server

import (
	"slices"

	"github.com/millstream-io/millstream/core/protocol"
)

// allHandlers is the table of APIs, in no order.
func allHandlers() []handler {
	return slices.Concat(handlers, groupHandlers, adminHandlers, transactionHandlers)
}

func newHandlerTable(rows []handler) *handlerTable {
	t := &handlerTable{rows: rows}
	slices.SortFunc(t.rows, func(a, b handler) int { return int(a.key) - int(b.key) })
	for i := range t.rows {
		row := &t.rows[i]
		row.served = max(row.served, row.min)
		t.byKey[row.key] = uint8(i + 1)
	}
	for key := range t.flexibleFrom {
		t.flexibleFrom[key] = protocol.FlexibleFrom(int16(key))
	}
	return t
}

// find returns the row of key.
func (t *handlerTable) find(key int16) (handler, bool) {
	if key < 0 || key > maxKey || t.byKey[key] == 0 {
		return handler{}, false
	}
	return t.rows[t.byKey[key]-1], true
}

// flexible tells whether (key, version) has tagged fields in its header.
func (s *Server) flexible(key, version int16) bool {
	if key < 0 || key > maxKey {
		return false
	}
	from := s.table.flexibleFrom[key]
	return from >= 0 && version >= from
}
