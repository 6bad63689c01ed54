package server_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coretest"
)

// TestKIP848_GroupsFollowTheirConfigs sets a dynamic config of one group while it has a member.
func TestKIP848_GroupsFollowTheirConfigs(t *testing.T) {
	w := newGroupWire(t, answererOf(coretest.Start(t, coretest.Options{})))
	w.prepare()
	beat := w.beatRequest(consumerBeat{member: "m1"})
	resp := w.ask(1, beat).(*kmsg.ConsumerGroupHeartbeatResponse)
	require.EqualValues(t, 5000, resp.HeartbeatIntervalMillis)

	alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = 32, "c-life"
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = "consumer.heartbeat.interval.ms", new("7000")
	resource.Configs = append(resource.Configs, config)
	alter.Resources = append(alter.Resources, resource)
	altered := w.ask(1, alter).(*kmsg.IncrementalAlterConfigsResponse)
	require.NoError(t, kerr.ErrorForCode(altered.Resources[0].ErrorCode))
	require.Eventually(t, func() bool {
		live := w.beatRequest(consumerBeat{member: "m1", epoch: resp.MemberEpoch, delta: true})
		next := w.ask(1, live).(*kmsg.ConsumerGroupHeartbeatResponse)
		return next.HeartbeatIntervalMillis == 7000
	}, time.Minute, 5*time.Millisecond)
}

// TestKIP848_FeatureOffRefusesConsumerGroups takes group.version back to 0.
func TestKIP848_FeatureOffRefusesConsumerGroups(t *testing.T) {
	w := newGroupWire(t, answererOf(coretest.Start(t, coretest.Options{})))
	w.prepare()
	update := kmsg.NewPtrUpdateFeaturesRequest()
	feature := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	feature.Feature, feature.MaxVersionLevel = "group.version", 0
	feature.UpgradeType = 2 // safe downgrade
	update.FeatureUpdates = append(update.FeatureUpdates, feature)
	updated := w.ask(1, update).(*kmsg.UpdateFeaturesResponse)
	require.NoError(t, kerr.ErrorForCode(updated.ErrorCode))
	resp := w.ask(1, w.beatRequest(consumerBeat{member: "m1"}))
	code := resp.(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode
	require.Equal(t, kerr.UnsupportedVersion.Code, code)
	describe := kmsg.NewPtrConsumerGroupDescribeRequest()
	describe.Groups = []string{"c-life"}
	described := w.ask(1, describe).(*kmsg.ConsumerGroupDescribeResponse)
	require.Equal(t, kerr.UnsupportedVersion.Code, described.Groups[0].ErrorCode)
}
