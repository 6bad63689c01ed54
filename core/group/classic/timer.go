package classic

import "github.com/millstream-io/millstream/core/group/timers"

// Timer is one deadline of a group.
type Timer = timers.Timer[Effects]

// Timers are the deadlines of one shard's classic groups.
type Timers = timers.Queue[Effects]
