"""Every feature gate that kube-scheduler 1.36.3 accepts, with its default and stage. Generated; do not change by hand.

Made by a Go program that imports ``k8s.io/kubernetes/cmd/kube-scheduler/app`` v1.36.3 (with the go.mod of
``e2e/controlplane/modules/kubernetes``) and prints ``GetAll()`` and ``Dependencies()`` of
``k8s.io/apiserver/pkg/util/feature.DefaultMutableFeatureGate``, sorted by name; AllAlpha and AllBeta are left out.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec


class Stage(enum.Enum):
    """How far a feature has come."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    STABLE = "GA"
    DEPRECATED = "DEPRECATED"


class FeatureGate(msgspec.Struct, frozen=True):
    """A gate as 1.36 ships it. A locked gate can only be set to its default; one that is on requires others to be."""

    default: bool
    stage: Stage
    locked: bool = False
    requires: tuple[str, ...] = ()


_ALPHA, _BETA, _STABLE, _DEPRECATED = Stage.ALPHA, Stage.BETA, Stage.STABLE, Stage.DEPRECATED

GATES: Final[Mapping[str, FeatureGate]] = MappingProxyType(
    {
        "APIResponseCompression": FeatureGate(True, _BETA),
        "APIServerIdentity": FeatureGate(True, _BETA),
        "APIServerTracing": FeatureGate(True, _STABLE, locked=True),
        "APIServingWithRoutine": FeatureGate(False, _ALPHA),
        "AggregatedDiscoveryRemoveBetaType": FeatureGate(True, _DEPRECATED, locked=True),
        "AllowDNSOnlyNodeCSR": FeatureGate(False, _DEPRECATED),
        "AllowInsecureKubeletCertificateSigningRequests": FeatureGate(False, _DEPRECATED),
        "AllowOverwriteTerminationGracePeriodSeconds": FeatureGate(False, _DEPRECATED, locked=True),
        "AllowParsingUserUIDFromCertAuth": FeatureGate(True, _BETA),
        "AllowServiceExternalIPs": FeatureGate(True, _STABLE),
        "AllowUnsafeMalformedObjectDeletion": FeatureGate(False, _ALPHA),
        "AnonymousAuthConfigurableEndpoints": FeatureGate(True, _STABLE, locked=True),
        "AnyVolumeDataSource": FeatureGate(True, _STABLE, locked=True),
        "AtomicFIFO": FeatureGate(True, _BETA),
        "AuthorizeNodeWithSelectors": FeatureGate(True, _STABLE, locked=True, requires=("AuthorizeWithSelectors",)),
        "AuthorizePodWebsocketUpgradeCreatePermission": FeatureGate(True, _BETA),
        "AuthorizeWithSelectors": FeatureGate(True, _STABLE, locked=True),
        "BtreeWatchCache": FeatureGate(True, _STABLE, locked=True),
        "CBORServingAndStorage": FeatureGate(False, _ALPHA),
        "CPUManagerPolicyAlphaOptions": FeatureGate(False, _ALPHA),
        "CPUManagerPolicyBetaOptions": FeatureGate(True, _BETA),
        "CPUManagerPolicyOptions": FeatureGate(True, _STABLE, locked=True),
        "CRDObservedGenerationTracking": FeatureGate(True, _BETA),
        "CRDValidationRatcheting": FeatureGate(True, _STABLE, locked=True),
        "CRIListStreaming": FeatureGate(False, _ALPHA),
        "CSIServiceAccountTokenSecrets": FeatureGate(True, _STABLE, locked=True),
        "CSIVolumeHealth": FeatureGate(False, _ALPHA),
        "ChangeContainerStatusOnKubeletRestart": FeatureGate(False, _DEPRECATED),
        "ClearingNominatedNodeNameAfterBinding": FeatureGate(True, _BETA),
        "ClientsAllowCARotation": FeatureGate(True, _BETA),
        "ClientsAllowCBOR": FeatureGate(False, _ALPHA),
        "ClientsAllowTLSCacheGC": FeatureGate(True, _BETA),
        "ClientsPreferCBOR": FeatureGate(False, _ALPHA),
        "CloudControllerManagerWatchBasedRoutesReconciliation": FeatureGate(False, _ALPHA),
        "CloudControllerManagerWebhook": FeatureGate(False, _ALPHA),
        "ClusterTrustBundle": FeatureGate(False, _BETA),
        "ClusterTrustBundleProjection": FeatureGate(False, _BETA, requires=("ClusterTrustBundle",)),
        "ComponentFlagz": FeatureGate(True, _BETA),
        "ComponentStatusz": FeatureGate(True, _BETA),
        "ConcurrentWatchObjectDecode": FeatureGate(False, _BETA),
        "ConsistentListFromCache": FeatureGate(True, _STABLE, locked=True),
        "ConstrainedImpersonation": FeatureGate(True, _BETA),
        "ContainerCheckpoint": FeatureGate(True, _BETA),
        "ContainerRestartRules": FeatureGate(True, _BETA),
        "ContainerStopSignals": FeatureGate(False, _ALPHA),
        "ContextualLogging": FeatureGate(True, _BETA),
        "CoordinatedLeaderElection": FeatureGate(False, _BETA),
        "CrossNamespaceVolumeDataSource": FeatureGate(False, _ALPHA),
        "CustomCPUCFSQuotaPeriod": FeatureGate(True, _STABLE),
        "CustomResourceFieldSelectors": FeatureGate(True, _STABLE, locked=True),
        "DRAAdminAccess": FeatureGate(True, _STABLE, locked=True, requires=("DynamicResourceAllocation",)),
        "DRAConsumableCapacity": FeatureGate(True, _BETA, requires=("DynamicResourceAllocation",)),
        "DRADeviceBindingConditions": FeatureGate(
            True, _BETA, requires=("DRAResourceClaimDeviceStatus", "DynamicResourceAllocation")
        ),
        "DRADeviceTaintRules": FeatureGate(False, _BETA, requires=("DRADeviceTaints",)),
        "DRADeviceTaints": FeatureGate(True, _BETA, requires=("DynamicResourceAllocation",)),
        "DRAExtendedResource": FeatureGate(True, _BETA, requires=("DynamicResourceAllocation",)),
        "DRAListTypeAttributes": FeatureGate(False, _ALPHA, requires=("DynamicResourceAllocation",)),
        "DRANodeAllocatableResources": FeatureGate(False, _ALPHA, requires=("DynamicResourceAllocation",)),
        "DRAPartitionableDevices": FeatureGate(True, _BETA, requires=("DynamicResourceAllocation",)),
        "DRAPrioritizedList": FeatureGate(True, _STABLE, requires=("DynamicResourceAllocation",)),
        "DRAResourceClaimDeviceStatus": FeatureGate(True, _BETA),
        "DRAResourceClaimGranularStatusAuthorization": FeatureGate(
            True, _BETA, requires=("DRAResourceClaimDeviceStatus", "DynamicResourceAllocation")
        ),
        "DRAResourcePoolStatus": FeatureGate(False, _ALPHA, requires=("DynamicResourceAllocation",)),
        "DRASchedulerFilterTimeout": FeatureGate(True, _BETA, requires=("DynamicResourceAllocation",)),
        "DRAWorkloadResourceClaims": FeatureGate(
            False, _ALPHA, requires=("DynamicResourceAllocation", "GenericWorkload")
        ),
        "DeclarativeValidation": FeatureGate(True, _STABLE, locked=True),
        "DeclarativeValidationBeta": FeatureGate(True, _BETA, requires=("DeclarativeValidation",)),
        "DeclarativeValidationTakeover": FeatureGate(False, _DEPRECATED, requires=("DeclarativeValidation",)),
        "DeploymentReplicaSetTerminatingReplicas": FeatureGate(True, _BETA),
        "DetectCacheInconsistency": FeatureGate(True, _BETA),
        "DisableAllocatorDualWrite": FeatureGate(True, _STABLE, locked=True, requires=("MultiCIDRServiceAllocator",)),
        "DisableCPUQuotaWithExclusiveCPUs": FeatureGate(True, _DEPRECATED),
        "DisableNodeKubeProxyVersion": FeatureGate(True, _DEPRECATED, locked=True),
        "DynamicResourceAllocation": FeatureGate(True, _STABLE, locked=True),
        "EnvFiles": FeatureGate(True, _BETA),
        "EventedPLEG": FeatureGate(False, _ALPHA),
        "ExecProbeTimeout": FeatureGate(True, _STABLE, locked=True),
        "ExtendWebSocketsToKubelet": FeatureGate(True, _BETA, requires=("NodeDeclaredFeatures",)),
        "ExternalServiceAccountTokenSigner": FeatureGate(True, _STABLE, locked=True),
        "GangScheduling": FeatureGate(False, _ALPHA, requires=("GenericWorkload",)),
        "GenericWorkload": FeatureGate(False, _ALPHA),
        "GitRepoVolumeDriver": FeatureGate(False, _DEPRECATED, locked=True),
        "GracefulNodeShutdown": FeatureGate(True, _BETA),
        "GracefulNodeShutdownBasedOnPodPriority": FeatureGate(True, _BETA, requires=("GracefulNodeShutdown",)),
        "HPAConfigurableTolerance": FeatureGate(True, _BETA),
        "HPAScaleToZero": FeatureGate(False, _ALPHA),
        "HostnameOverride": FeatureGate(True, _BETA),
        "ImageMaximumGCAge": FeatureGate(True, _STABLE, locked=True),
        "ImageVolume": FeatureGate(True, _STABLE, locked=True),
        "ImageVolumeWithDigest": FeatureGate(False, _ALPHA, requires=("ImageVolume",)),
        "InOrderInformers": FeatureGate(True, _STABLE, locked=True),
        "InOrderInformersBatchProcess": FeatureGate(True, _BETA),
        "InPlacePodLevelResourcesVerticalScaling": FeatureGate(
            True, _BETA, requires=("InPlacePodVerticalScaling", "NodeDeclaredFeatures", "PodLevelResources")
        ),
        "InPlacePodVerticalScaling": FeatureGate(True, _STABLE, locked=True),
        "InPlacePodVerticalScalingExclusiveCPUs": FeatureGate(False, _ALPHA, requires=("InPlacePodVerticalScaling",)),
        "InPlacePodVerticalScalingExclusiveMemory": FeatureGate(False, _ALPHA, requires=("InPlacePodVerticalScaling",)),
        "InPlacePodVerticalScalingInitContainers": FeatureGate(
            True, _BETA, requires=("InPlacePodVerticalScaling", "NodeDeclaredFeatures")
        ),
        "InformerResourceVersion": FeatureGate(True, _STABLE),
        "JobBackoffLimitPerIndex": FeatureGate(True, _STABLE, locked=True),
        "JobManagedBy": FeatureGate(True, _STABLE, locked=True),
        "JobPodReplacementPolicy": FeatureGate(True, _STABLE, locked=True),
        "JobSuccessPolicy": FeatureGate(True, _STABLE, locked=True),
        "KMSv1": FeatureGate(False, _DEPRECATED),
        "KubeletCgroupDriverFromCRI": FeatureGate(True, _STABLE, locked=True),
        "KubeletCrashLoopBackOffMax": FeatureGate(True, _BETA),
        "KubeletEnsureSecretPulledImages": FeatureGate(True, _BETA),
        "KubeletFineGrainedAuthz": FeatureGate(True, _STABLE, locked=True),
        "KubeletInUserNamespace": FeatureGate(False, _ALPHA),
        "KubeletPSI": FeatureGate(True, _STABLE, locked=True),
        "KubeletPodResourcesDynamicResources": FeatureGate(True, _STABLE, locked=True),
        "KubeletPodResourcesGet": FeatureGate(True, _STABLE, locked=True),
        "KubeletPodResourcesListUseActivePods": FeatureGate(True, _DEPRECATED),
        "KubeletRegistrationGetOnExistsOnly": FeatureGate(False, _DEPRECATED),
        "KubeletSeparateDiskGC": FeatureGate(True, _BETA),
        "KubeletServiceAccountTokenForCredentialProviders": FeatureGate(True, _BETA),
        "KubeletTracing": FeatureGate(True, _STABLE, locked=True),
        "ListFromCacheSnapshot": FeatureGate(True, _BETA),
        "LocalStorageCapacityIsolationFSQuotaMonitoring": FeatureGate(False, _BETA),
        "LogarithmicScaleDown": FeatureGate(True, _STABLE, locked=True),
        "LoggingAlphaOptions": FeatureGate(False, _ALPHA),
        "LoggingBetaOptions": FeatureGate(True, _BETA),
        "ManifestBasedAdmissionControlConfig": FeatureGate(False, _ALPHA),
        "MatchLabelKeysInPodAffinity": FeatureGate(True, _STABLE, locked=True),
        "MatchLabelKeysInPodTopologySpread": FeatureGate(True, _BETA),
        "MatchLabelKeysInPodTopologySpreadSelectorMerge": FeatureGate(
            True, _BETA, requires=("MatchLabelKeysInPodTopologySpread",)
        ),
        "MaxUnavailableStatefulSet": FeatureGate(False, _BETA),
        "MemoryQoS": FeatureGate(False, _ALPHA),
        "MultiCIDRServiceAllocator": FeatureGate(True, _STABLE, locked=True),
        "MutableCSINodeAllocatableCount": FeatureGate(True, _STABLE, locked=True),
        "MutablePVNodeAffinity": FeatureGate(False, _ALPHA),
        "MutablePodResourcesForSuspendedJobs": FeatureGate(True, _BETA),
        "MutableSchedulingDirectivesForSuspendedJobs": FeatureGate(True, _BETA),
        "MutatingAdmissionPolicy": FeatureGate(True, _STABLE),
        "NFTablesProxyMode": FeatureGate(True, _STABLE, locked=True),
        "NativeHistograms": FeatureGate(False, _ALPHA),
        "NodeDeclaredFeatures": FeatureGate(True, _BETA),
        "NodeInclusionPolicyInPodTopologySpread": FeatureGate(True, _STABLE, locked=True),
        "NodeLogQuery": FeatureGate(True, _STABLE, locked=True),
        "NodeSwap": FeatureGate(True, _STABLE, locked=True),
        "NominatedNodeNameForExpectation": FeatureGate(True, _BETA),
        "OpenAPIEnums": FeatureGate(True, _BETA),
        "OpportunisticBatching": FeatureGate(True, _BETA),
        "OrderedNamespaceDeletion": FeatureGate(True, _STABLE, locked=True),
        "PLEGOnDemandRelist": FeatureGate(True, _BETA),
        "PersistentVolumeClaimUnusedSinceTime": FeatureGate(False, _ALPHA),
        "PodAndContainerStatsFromCRI": FeatureGate(False, _ALPHA),
        "PodCertificateRequest": FeatureGate(False, _BETA, requires=("AuthorizeNodeWithSelectors",)),
        "PodDeletionCost": FeatureGate(True, _BETA),
        "PodLevelResourceManagers": FeatureGate(False, _ALPHA, requires=("PodLevelResources",)),
        "PodLevelResources": FeatureGate(True, _BETA),
        "PodLifecycleSleepAction": FeatureGate(True, _STABLE, locked=True),
        "PodLifecycleSleepActionAllowZero": FeatureGate(
            True, _STABLE, locked=True, requires=("PodLifecycleSleepAction",)
        ),
        "PodLogsQuerySplitStreams": FeatureGate(False, _ALPHA),
        "PodObservedGenerationTracking": FeatureGate(True, _STABLE, locked=True),
        "PodReadyToStartContainersCondition": FeatureGate(True, _BETA),
        "PodSchedulingReadiness": FeatureGate(True, _STABLE, locked=True),
        "PodTopologyLabelsAdmission": FeatureGate(True, _BETA),
        "PodsAPI": FeatureGate(False, _ALPHA),
        "PortForwardWebsockets": FeatureGate(True, _BETA),
        "PreferSameTrafficDistribution": FeatureGate(True, _STABLE, locked=True),
        "PreventStaticPodAPIReferences": FeatureGate(True, _BETA),
        "ProcMountType": FeatureGate(True, _STABLE, locked=True, requires=("UserNamespacesSupport",)),
        "QOSReserved": FeatureGate(False, _ALPHA),
        "RecoverVolumeExpansionFailure": FeatureGate(True, _STABLE, locked=True),
        "RecursiveReadOnlyMounts": FeatureGate(True, _STABLE, locked=True),
        "ReduceDefaultCrashLoopBackOffDecay": FeatureGate(False, _ALPHA),
        "RelaxedDNSSearchValidation": FeatureGate(True, _STABLE, locked=True),
        "RelaxedEnvironmentVariableValidation": FeatureGate(True, _STABLE, locked=True),
        "RelaxedServiceNameValidation": FeatureGate(True, _BETA),
        "ReloadKubeletClientCAFile": FeatureGate(True, _BETA),
        "ReloadKubeletServerCertificateFile": FeatureGate(True, _BETA),
        "RemoteRequestHeaderUID": FeatureGate(True, _BETA),
        "ResilientWatchCacheInitialization": FeatureGate(True, _STABLE, locked=True),
        "ResourceHealthStatus": FeatureGate(True, _BETA, requires=("DynamicResourceAllocation",)),
        "ResourceHealthStatusMessage": FeatureGate(True, _BETA, requires=("ResourceHealthStatus",)),
        "RestartAllContainersOnContainerExits": FeatureGate(
            True, _BETA, requires=("ContainerRestartRules", "NodeDeclaredFeatures")
        ),
        "RetryGenerateName": FeatureGate(True, _STABLE, locked=True),
        "RotateKubeletServerCertificate": FeatureGate(True, _BETA),
        "RuntimeClassInImageCriApi": FeatureGate(False, _ALPHA),
        "SELinuxChangePolicy": FeatureGate(True, _STABLE, locked=True),
        "SELinuxMount": FeatureGate(False, _BETA),
        "SELinuxMountReadWriteOncePod": FeatureGate(True, _STABLE, locked=True),
        "SchedulerAsyncAPICalls": FeatureGate(False, _BETA),
        "SchedulerAsyncPreemption": FeatureGate(True, _BETA),
        "SchedulerPopFromBackoffQ": FeatureGate(True, _BETA),
        "SchedulerQueueingHints": FeatureGate(True, _STABLE, locked=True),
        "SeparateCacheWatchRPC": FeatureGate(False, _DEPRECATED, locked=True),
        "SeparateTaintEvictionController": FeatureGate(True, _STABLE, locked=True),
        "ServiceAccountNodeAudienceRestriction": FeatureGate(True, _BETA),
        "ServiceAccountTokenJTI": FeatureGate(True, _STABLE, locked=True),
        "ServiceAccountTokenNodeBinding": FeatureGate(
            True, _STABLE, locked=True, requires=("ServiceAccountTokenNodeBindingValidation",)
        ),
        "ServiceAccountTokenNodeBindingValidation": FeatureGate(True, _STABLE, locked=True),
        "ServiceAccountTokenPodNodeInfo": FeatureGate(True, _STABLE, locked=True),
        "ServiceCIDRStatusFieldWiping": FeatureGate(True, _DEPRECATED),
        "ShardedListAndWatch": FeatureGate(False, _ALPHA),
        "SidecarContainers": FeatureGate(True, _STABLE, locked=True),
        "SizeBasedListCostEstimate": FeatureGate(True, _BETA),
        "StaleControllerConsistencyDaemonSet": FeatureGate(True, _BETA, requires=("AtomicFIFO",)),
        "StaleControllerConsistencyJob": FeatureGate(True, _BETA, requires=("AtomicFIFO",)),
        "StaleControllerConsistencyReplicaSet": FeatureGate(True, _BETA, requires=("AtomicFIFO",)),
        "StaleControllerConsistencyStatefulSet": FeatureGate(True, _BETA, requires=("AtomicFIFO",)),
        "StatefulSetSemanticRevisionComparison": FeatureGate(True, _BETA),
        "StorageCapacityScoring": FeatureGate(False, _ALPHA),
        "StorageNamespaceIndex": FeatureGate(True, _DEPRECATED),
        "StorageVersionAPI": FeatureGate(False, _ALPHA, requires=("APIServerIdentity",)),
        "StorageVersionHash": FeatureGate(True, _BETA),
        "StorageVersionMigrator": FeatureGate(False, _BETA),
        "StreamingCollectionEncodingToJSON": FeatureGate(True, _STABLE, locked=True),
        "StreamingCollectionEncodingToProtobuf": FeatureGate(True, _STABLE, locked=True),
        "StrictIPCIDRValidation": FeatureGate(True, _BETA),
        "StructuredAuthenticationConfiguration": FeatureGate(True, _STABLE, locked=True),
        "StructuredAuthenticationConfigurationEgressSelector": FeatureGate(
            True, _BETA, requires=("StructuredAuthenticationConfiguration",)
        ),
        "StructuredAuthenticationConfigurationJWKSMetrics": FeatureGate(
            True, _BETA, requires=("StructuredAuthenticationConfiguration",)
        ),
        "SupplementalGroupsPolicy": FeatureGate(True, _STABLE, locked=True),
        "SystemdWatchdog": FeatureGate(True, _STABLE, locked=True),
        "TaintTolerationComparisonOperators": FeatureGate(False, _ALPHA),
        "TokenRequestServiceAccountUIDValidation": FeatureGate(True, _BETA),
        "TopologyAwareWorkloadScheduling": FeatureGate(False, _ALPHA, requires=("GenericWorkload",)),
        "TopologyManagerPolicyAlphaOptions": FeatureGate(False, _ALPHA),
        "TopologyManagerPolicyBetaOptions": FeatureGate(True, _BETA),
        "TopologyManagerPolicyOptions": FeatureGate(True, _STABLE, locked=True),
        "TranslateStreamCloseWebsocketRequests": FeatureGate(True, _BETA),
        "UnauthenticatedHTTP2DOSMitigation": FeatureGate(True, _BETA),
        "UnknownVersionInteroperabilityProxy": FeatureGate(True, _BETA, requires=("APIServerIdentity",)),
        "UnlockWhileProcessingFIFO": FeatureGate(True, _BETA),
        "UserNamespacesHostNetworkSupport": FeatureGate(
            False, _ALPHA, requires=("NodeDeclaredFeatures", "UserNamespacesSupport")
        ),
        "UserNamespacesSupport": FeatureGate(True, _STABLE, locked=True),
        "VolumeAttributesClass": FeatureGate(True, _STABLE, locked=True),
        "VolumeLimitScaling": FeatureGate(False, _ALPHA),
        "WatchCacheInitializationPostStartHook": FeatureGate(True, _BETA),
        "WatchList": FeatureGate(True, _BETA),
        "WatchListClient": FeatureGate(True, _BETA),
        "WinDSR": FeatureGate(True, _STABLE, locked=True),
        "WinOverlay": FeatureGate(True, _STABLE, locked=True),
        "WindowsCPUAndMemoryAffinity": FeatureGate(False, _ALPHA),
        "WindowsGracefulNodeShutdown": FeatureGate(True, _BETA, requires=("GracefulNodeShutdown",)),
        "WindowsHostNetwork": FeatureGate(False, _DEPRECATED),
        "WorkloadAwarePreemption": FeatureGate(False, _ALPHA, requires=("GangScheduling",)),
        "WorkloadWithJob": FeatureGate(False, _ALPHA, requires=("GenericWorkload",)),
    }
)
