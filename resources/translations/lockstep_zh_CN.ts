<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="zh_CN" sourcelanguage="en">
    <context>
        <name>lockstep::ui::AboutDialog</name>
        <message>
            <source>Lockstep %1</source>
            <translation>Lockstep %1</translation>
        </message>
        <message>
            <source>A studio for training neural networks on a cluster.</source>
            <translation>在集群上训练神经网络的工作室。</translation>
        </message>
        <message>
            <source>Icon of Lockstep</source>
            <translation>Lockstep 图标</translation>
        </message>
        <message>
            <source>Licences</source>
            <translation>许可证</translation>
        </message>
        <message>
            <source>The sources of Lockstep are licensed under the Apache License 2.0.

This program links QCustomPlot and is distributed under the GNU General Public License, version 3. Agent and engine do not link it.

It uses:
  Qt 6 — LGPLv3
  QCustomPlot — GPLv3
  gRPC — Apache-2.0
  Protocol Buffers — BSD-3-Clause
  libssh — LGPLv2.1
  SQLite — public domain
  yaml-cpp, fmt — MIT
  OpenSSL — Apache-2.0
  libcurl — curl</source>
            <translation>Lockstep 的源代码采用 Apache 许可证 2.0。

本程序链接 QCustomPlot，按 GNU 通用公共许可证第 3 版分发。代理和引擎不链接它。

使用的库：
  Qt 6 — LGPLv3
  QCustomPlot — GPLv3
  gRPC — Apache-2.0
  Protocol Buffers — BSD-3-Clause
  libssh — LGPLv2.1
  SQLite — 公有领域
  yaml-cpp、fmt — MIT
  OpenSSL — Apache-2.0
  libcurl — curl</translation>
        </message>
        <message>
            <source>Close</source>
            <translation>关闭</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::AddHostDialog</name>
        <message>
            <source>Add a host</source>
            <translation>添加主机</translation>
        </message>
        <message>
            <source>Host</source>
            <translation>主机</translation>
        </message>
        <message>
            <source>Node name</source>
            <translation>节点名称</translation>
        </message>
        <message>
            <source>Address for peers</source>
            <translation>供其他节点访问的地址</translation>
        </message>
        <message>
            <source>User</source>
            <translation>用户</translation>
        </message>
        <message>
            <source>Port</source>
            <translation>端口</translation>
        </message>
        <message>
            <source>Key file</source>
            <translation>密钥文件</translation>
        </message>
        <message>
            <source>Work folder</source>
            <translation>工作目录</translation>
        </message>
        <message>
            <source>Ranks</source>
            <translation>rank 数</translation>
        </message>
        <message>
            <source>Add host</source>
            <translation>添加主机</translation>
        </message>
        <message>
            <source>Cancel</source>
            <translation>取消</translation>
        </message>
        <message>
            <source>Enter a host, or leave it blank and name the node to use this machine.</source>
            <translation>请选择主机。若为本机，请留空并为节点命名。</translation>
        </message>
        <message>
            <source>A node's name consists of letters, digits, '-', '_' and '.'.</source>
            <translation>节点名称由字母、数字、“-”、“_”和“.”组成。</translation>
        </message>
        <message>
            <source>The cluster already has a node %1.</source>
            <translation>集群中已有节点 %1。</translation>
        </message>
        <message>
            <source>Hosts from your SSH config are listed; their users, keys and jump hosts apply.</source>
            <translation>列出您 SSH 配置中的主机，并按其中的用户、密钥和跳板机连接。</translation>
        </message>
        <message>
            <source>Device</source>
            <translation>设备</translation>
        </message>
        <message>
            <source>host or user@host (blank: this machine)</source>
            <translation>主机或 用户@主机（留空：本机）</translation>
        </message>
        <message>
            <source>Automatic</source>
            <translation>自动</translation>
        </message>
        <message>
            <source>From SSH config</source>
            <translation>按 SSH 配置</translation>
        </message>
        <message>
            <source>CPU</source>
            <translation>CPU</translation>
        </message>
        <message>
            <source>NVIDIA GPUs, one per rank</source>
            <translation>NVIDIA GPU，每个 rank 一块</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::AlertModel</name>
        <message>
            <source>Time</source>
            <translation>时间</translation>
        </message>
        <message>
            <source>Where</source>
            <translation>位置</translation>
        </message>
        <message>
            <source>What</source>
            <translation>内容</translation>
        </message>
        <message>
            <source>resolved %1</source>
            <translation>已于 %1 解除</translation>
        </message>
        <message>
            <source>active</source>
            <translation>持续中</translation>
        </message>
        <message>
            <source>State</source>
            <translation>状态</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::BreakdownBars</name>
        <message>
            <source>measured %1</source>
            <translation>实测 %1</translation>
        </message>
        <message>
            <source>predicted %1</source>
            <translation>预测 %1</translation>
        </message>
        <message>
            <source>parameters</source>
            <translation>参数</translation>
        </message>
        <message>
            <source>gradients</source>
            <translation>梯度</translation>
        </message>
        <message>
            <source>optimizer state</source>
            <translation>优化器状态</translation>
        </message>
        <message>
            <source>activations</source>
            <translation>激活值</translation>
        </message>
        <message>
            <source>workspace</source>
            <translation>工作区</translation>
        </message>
        <message>
            <source>now %1</source>
            <translation>现在 %1</translation>
        </message>
        <message>
            <source>at the start %1</source>
            <translation>开始时 %1</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::BreakdownModel</name>
        <message>
            <source>measured</source>
            <translation>实测</translation>
        </message>
        <message>
            <source>predicted</source>
            <translation>预测</translation>
        </message>
        <message>
            <source>Rank</source>
            <translation>rank</translation>
        </message>
        <message>
            <source>Time</source>
            <translation>时间</translation>
        </message>
        <message>
            <source>sum</source>
            <translation>合计</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::ClusterPage</name>
        <message>
            <source>Deploying agents to %1</source>
            <translation>正在向 %1 部署代理</translation>
        </message>
        <message>
            <source>Change the settings of the selected host</source>
            <translation>更改所选主机的设置</translation>
        </message>
        <message>
            <source>Edit settings</source>
            <translation>编辑设置</translation>
        </message>
        <message>
            <source>Host settings</source>
            <translation>主机设置</translation>
        </message>
        <message>
            <source>Load and settings</source>
            <translation>负载与设置</translation>
        </message>
        <message>
            <source>Nodes of a %1 job</source>
            <translation>%1 作业的节点</translation>
        </message>
        <message>
            <source>Each run gets a job of its own. Its nodes are known when it starts.</source>
            <translation>每次运行都有自己的作业，作业开始时才知道其节点。</translation>
        </message>
        <message>
            <source>Each run gets a job of its own by %1. Its nodes are known when it starts.</source>
            <translation>每次运行都通过 %1 得到自己的作业，作业开始时才知道其节点。</translation>
        </message>
        <message>
            <source>Login node</source>
            <translation>登录节点</translation>
        </message>
        <message>
            <source>Context</source>
            <translation>上下文</translation>
        </message>
        <message>
            <source>Namespace</source>
            <translation>命名空间</translation>
        </message>
        <message>
            <source>Image</source>
            <translation>镜像</translation>
        </message>
        <message>
            <source>Queue</source>
            <translation>队列</translation>
        </message>
        <message>
            <source>Partition</source>
            <translation>分区</translation>
        </message>
        <message>
            <source>GPUs per node</source>
            <translation>每节点 GPU 数</translation>
        </message>
        <message>
            <source>Time limit</source>
            <translation>时间上限</translation>
        </message>
        <message>
            <source>Pre-flight: measure nodes and links</source>
            <translation>运行前检查：测量节点和链路</translation>
        </message>
        <message>
            <source>Add host</source>
            <translation>添加主机</translation>
        </message>
        <message>
            <source>Remove host</source>
            <translation>移除主机</translation>
        </message>
        <message>
            <source>this machine</source>
            <translation>本机</translation>
        </message>
        <message>
            <source>%1 of %2 connected</source>
            <translation>已连接 %1/%2</translation>
        </message>
        <message>
            <source>Cluster</source>
            <translation>集群</translation>
        </message>
        <message>
            <source>Nodes</source>
            <translation>节点</translation>
        </message>
        <message>
            <source>Connected</source>
            <translation>已连接</translation>
        </message>
        <message>
            <source>Ranks</source>
            <translation>rank 数</translation>
        </message>
        <message>
            <source>File</source>
            <translation>文件</translation>
        </message>
        <message>
            <source>State</source>
            <translation>状态</translation>
        </message>
        <message>
            <source>Detail</source>
            <translation>详情</translation>
        </message>
        <message>
            <source>Connection</source>
            <translation>连接方式</translation>
        </message>
        <message>
            <source>Roles</source>
            <translation>角色</translation>
        </message>
        <message>
            <source>Machine</source>
            <translation>机器</translation>
        </message>
        <message>
            <source>Processor</source>
            <translation>处理器</translation>
        </message>
        <message>
            <source>Cores</source>
            <translation>核心数</translation>
        </message>
        <message>
            <source>Memory</source>
            <translation>内存</translation>
        </message>
        <message>
            <source>Free disk</source>
            <translation>可用磁盘</translation>
        </message>
        <message>
            <source>System</source>
            <translation>系统</translation>
        </message>
        <message>
            <source>Kernel</source>
            <translation>内核</translation>
        </message>
        <message>
            <source>Addresses</source>
            <translation>地址</translation>
        </message>
        <message>
            <source>Peer address</source>
            <translation>供其他节点连接的地址</translation>
        </message>
        <message>
            <source>Work folder</source>
            <translation>工作目录</translation>
        </message>
        <message>
            <source>Agent</source>
            <translation>代理</translation>
        </message>
        <message>
            <source>Connect</source>
            <translation>连接</translation>
        </message>
        <message>
            <source>Connect every node; the agent is deployed where it is missing</source>
            <translation>连接所有节点；缺少代理的节点会自动部署</translation>
        </message>
        <message>
            <source>Disconnect</source>
            <translation>断开</translation>
        </message>
        <message>
            <source>Disconnect all nodes; runs continue</source>
            <translation>断开连接；运行继续进行</translation>
        </message>
        <message>
            <source>Remove</source>
            <translation>移除</translation>
        </message>
        <message>
            <source>Launch here…</source>
            <translation>在此启动…</translation>
        </message>
        <message>
            <source>Load</source>
            <translation>负载</translation>
        </message>
        <message>
            <source>No hosts yet</source>
            <translation>还没有主机</translation>
        </message>
        <message>
            <source>No data yet. Connect the nodes.</source>
            <translation>暂无数据：请先连接节点。</translation>
        </message>
        <message>
            <source>CPU</source>
            <translation>CPU</translation>
        </message>
        <message>
            <source>Network</source>
            <translation>网络</translation>
        </message>
        <message>
            <source>Cluster %1</source>
            <translation>集群 %1</translation>
        </message>
        <message>
            <source>GPU %1</source>
            <translation>GPU %1</translation>
        </message>
        <message>
            <source>Name</source>
            <translation>名称</translation>
        </message>
        <message>
            <source>Attention</source>
            <translation>注意</translation>
        </message>
        <message>
            <source>GPU use</source>
            <translation>GPU 利用率</translation>
        </message>
        <message>
            <source>Temperature</source>
            <translation>温度</translation>
        </message>
        <message>
            <source>Power</source>
            <translation>功率</translation>
        </message>
        <message>
            <source>GPUs</source>
            <translation>GPU</translation>
        </message>
        <message>
            <source>Show GPU load instead</source>
            <translation>改为显示 GPU 的负载</translation>
        </message>
        <message>
            <source>Remove the selected host from the cluster</source>
            <translation>从集群中移除选中的主机</translation>
        </message>
        <message>
            <source>Add the machines to train on. Hosts from your SSH config are listed.</source>
            <translation>添加用于训练的机器。会列出您 SSH 配置中的主机。</translation>
        </message>
        <message>
            <source>Debug the selected node: processes, kernel messages, a terminal</source>
            <translation>调试所选节点：进程、内核消息、终端</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::CommandPalette</name>
        <message>
            <source>Command palette</source>
            <translation>命令面板</translation>
        </message>
        <message>
            <source>Type a command</source>
            <translation>输入命令</translation>
        </message>
        <message>
            <source>Search commands</source>
            <translation>要查找的命令</translation>
        </message>
        <message>
            <source>Matching commands</source>
            <translation>找到的命令</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::Errors</name>
        <message>
            <source>Done</source>
            <translation>完成</translation>
        </message>
        <message>
            <source>Invalid input</source>
            <translation>输入有误</translation>
        </message>
        <message>
            <source>Not found</source>
            <translation>未找到</translation>
        </message>
        <message>
            <source>Already exists</source>
            <translation>已存在</translation>
        </message>
        <message>
            <source>Missing prerequisite</source>
            <translation>缺少先决条件</translation>
        </message>
        <message>
            <source>Permission denied</source>
            <translation>没有权限</translation>
        </message>
        <message>
            <source>Unreachable</source>
            <translation>无法访问</translation>
        </message>
        <message>
            <source>Timed out</source>
            <translation>未及时响应</translation>
        </message>
        <message>
            <source>Out of space or memory</source>
            <translation>空间或内存不足</translation>
        </message>
        <message>
            <source>Damaged data</source>
            <translation>读取的内容已损坏</translation>
        </message>
        <message>
            <source>Failure elsewhere in the group</source>
            <translation>组内其他成员失败</translation>
        </message>
        <message>
            <source>Cancelled</source>
            <translation>已取消</translation>
        </message>
        <message>
            <source>Internal error</source>
            <translation>内部错误</translation>
        </message>
        <message>
            <source>node %1</source>
            <translation>节点 %1</translation>
        </message>
        <message>
            <source>rank %1</source>
            <translation>rank %1</translation>
        </message>
        <message>
            <source>step %1</source>
            <translation>第 %1 步</translation>
        </message>
        <message>
            <source>%1: %2</source>
            <translation>%1：%2</translation>
        </message>
        <message>
            <source>What to do: %1</source>
            <translation>处理办法：%1</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::FieldDelegate</name>
        <message>
            <source>Browse…</source>
            <translation>浏览…</translation>
        </message>
        <message>
            <source>Choose a file</source>
            <translation>选择文件</translation>
        </message>
        <message>
            <source>Default: %1</source>
            <translation>默认：%1</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::FieldForm</name>
        <message>
            <source>Fields</source>
            <translation>字段</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::HostPanel</name>
        <message>
            <source>Host settings</source>
            <translation>主机设置</translation>
        </message>
        <message>
            <source>SSH</source>
            <translation>SSH</translation>
        </message>
        <message>
            <source>Device</source>
            <translation>设备</translation>
        </message>
        <message>
            <source>Device %1</source>
            <translation>设备 %1</translation>
        </message>
        <message>
            <source>Data</source>
            <translation>数据</translation>
        </message>
        <message>
            <source>Settings of %1, all %2 hosts</source>
            <translation>%1 的设置（共 %2 台主机）</translation>
        </message>
        <message>
            <source>Settings of %1</source>
            <translation>%1 的设置</translation>
        </message>
        <message>
            <source>Add device</source>
            <translation>添加设备</translation>
        </message>
        <message>
            <source>Remove device</source>
            <translation>移除设备</translation>
        </message>
        <message>
            <source>It has a place already.</source>
            <translation>已为它指定位置。</translation>
        </message>
        <message>
            <source>Data on this host</source>
            <translation>本主机上的数据</translation>
        </message>
        <message>
            <source>A data path of the run spec that is in another place on this host</source>
            <translation>运行规格中的数据路径，在本主机上位于别处</translation>
        </message>
        <message>
            <source>Add</source>
            <translation>添加</translation>
        </message>
        <message>
            <source>Add data path</source>
            <translation>添加数据路径</translation>
        </message>
        <message>
            <source>Add devices of another kind</source>
            <translation>添加另一种设备</translation>
        </message>
        <message>
            <source>Remove the device or the link that is being edited</source>
            <translation>移除正在编辑的设备或链路</translation>
        </message>
        <message>
            <source>Remove device or link</source>
            <translation>移除设备或链路</translation>
        </message>
        <message>
            <source>Remove link</source>
            <translation>移除链路</translation>
        </message>
        <message>
            <source>Add link</source>
            <translation>添加链路</translation>
        </message>
        <message>
            <source>Link %1</source>
            <translation>链路 %1</translation>
        </message>
        <message>
            <source>Say what is known of a link of this host</source>
            <translation>说明本主机某条链路的已知情况</translation>
        </message>
        <message>
            <source>Say where data of the run spec is on this host, if elsewhere</source>
            <translation>若运行规格的数据在本主机上位于别处，在此指定</translation>
        </message>
        <message>
            <source>Select a host in the table above to change its settings.</source>
            <translation>在上方表格中选择主机以更改其设置。</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::FieldModel</name>
        <message>
            <source>not used</source>
            <translation>不使用</translation>
        </message>
        <message>
            <source>yes</source>
            <translation>是</translation>
        </message>
        <message>
            <source>no</source>
            <translation>否</translation>
        </message>
        <message>
            <source>Change %1</source>
            <translation>修改%1</translation>
        </message>
        <message>
            <source>Field</source>
            <translation>字段</translation>
        </message>
        <message>
            <source>Value</source>
            <translation>值</translation>
        </message>
        <message>
            <source>required</source>
            <translation>必填</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::Format</name>
        <message>
            <source>about %1 left</source>
            <translation>约剩 %1</translation>
        </message>
        <message>
            <source>Accuracy</source>
            <translation>准确率</translation>
        </message>
        <message>
            <source>AUC</source>
            <translation>AUC</translation>
        </message>
        <message>
            <source>Metric</source>
            <translation>指标</translation>
        </message>
        <message>
            <source>Perplexity</source>
            <translation>困惑度</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::HistoryPage</name>
        <message>
            <source>The first %1 of %2 selected runs are opened.</source>
            <translation>所选 %2 个运行中，已打开前 %1 个。</translation>
        </message>
        <message>
            <source>Lost to failures</source>
            <translation>故障损失的时间</translation>
        </message>
        <message>
            <source>Delete this run?</source>
            <translation>删除此运行？</translation>
        </message>
        <message>
            <source>Delete</source>
            <translation>删除</translation>
        </message>
        <message>
            <source>History</source>
            <translation>历史</translation>
        </message>
        <message>
            <source>Runs</source>
            <translation>运行</translation>
        </message>
        <message>
            <source>Run</source>
            <translation>运行</translation>
        </message>
        <message>
            <source>State</source>
            <translation>状态</translation>
        </message>
        <message>
            <source>Error</source>
            <translation>错误</translation>
        </message>
        <message>
            <source>Started</source>
            <translation>开始时间</translation>
        </message>
        <message>
            <source>Finished</source>
            <translation>结束时间</translation>
        </message>
        <message>
            <source>Strategy</source>
            <translation>策略</translation>
        </message>
        <message>
            <source>Communicator</source>
            <translation>通信方式</translation>
        </message>
        <message>
            <source>Predicted step</source>
            <translation>预测步时</translation>
        </message>
        <message>
            <source>Measured step</source>
            <translation>实测步时</translation>
        </message>
        <message>
            <source>Evaluation loss</source>
            <translation>评估损失</translation>
        </message>
        <message>
            <source>Plan</source>
            <translation>计划</translation>
        </message>
        <message>
            <source>Weights</source>
            <translation>权重</translation>
        </message>
        <message>
            <source>Model file</source>
            <translation>模型文件</translation>
        </message>
        <message>
            <source>Notes</source>
            <translation>备注</translation>
        </message>
        <message>
            <source>Find by name, notes, strategy or cluster</source>
            <translation>按名称、备注、策略或集群查找</translation>
        </message>
        <message>
            <source>Find runs</source>
            <translation>查找运行</translation>
        </message>
        <message>
            <source>Open</source>
            <translation>打开</translation>
        </message>
        <message>
            <source>Export CSV…</source>
            <translation>导出 CSV…</translation>
        </message>
        <message>
            <source>Delete…</source>
            <translation>删除…</translation>
        </message>
        <message>
            <source>No runs yet</source>
            <translation>还没有运行</translation>
        </message>
        <message>
            <source>Every run is recorded here with its spec, plan, metrics and curves.</source>
            <translation>每次运行都会连同其规格、计划、指标和曲线保存在这里。</translation>
        </message>
        <message>
            <source>Loss</source>
            <translation>损失</translation>
        </message>
        <message>
            <source>Accuracy</source>
            <translation>准确率</translation>
        </message>
        <message>
            <source>Throughput</source>
            <translation>吞吐量</translation>
        </message>
        <message>
            <source>Evaluation loss by epoch</source>
            <translation>各轮评估损失</translation>
        </message>
        <message>
            <source>Evaluation accuracy by epoch</source>
            <translation>各轮评估准确率</translation>
        </message>
        <message>
            <source>Curve</source>
            <translation>曲线</translation>
        </message>
        <message>
            <source>Curves</source>
            <translation>曲线</translation>
        </message>
        <message>
            <source>step</source>
            <translation>步</translation>
        </message>
        <message>
            <source>AUC</source>
            <translation>AUC</translation>
        </message>
        <message>
            <source>Evaluation AUC by epoch</source>
            <translation>各轮评估 AUC</translation>
        </message>
        <message>
            <source>Perplexity</source>
            <translation>困惑度</translation>
        </message>
        <message>
            <source>Evaluation perplexity by epoch</source>
            <translation>各轮评估困惑度</translation>
        </message>
        <message>
            <source>Loss scale</source>
            <translation>损失缩放倍数</translation>
        </message>
        <message>
            <source>Delete %1 runs?</source>
            <translation>删除 %1 次运行？</translation>
        </message>
        <message>
            <source>Curves, logs and documents are removed from this computer. Nodes remove the run&apos;s files now, or once they are connected again. Checkpoints in a shared folder stay.</source>
            <translation>曲线、日志和文档将从这台计算机上删除。节点会立即删除该次运行的文件，未连接的节点则在再次连接后删除。共享文件夹中的检查点会保留。</translation>
        </message>
        <message>
            <source>Selected</source>
            <translation>已选</translation>
        </message>
        <message>
            <source>Compare selected runs</source>
            <translation>比较所选运行</translation>
        </message>
        <message>
            <source>Select runs to overlay their curves.</source>
            <translation>选择运行以叠加它们的曲线。</translation>
        </message>
        <message>
            <source>Launch again</source>
            <translation>再次启动</translation>
        </message>
        <message>
            <source>Resume, rerun or clone the selected run</source>
            <translation>续训、重跑或克隆所选运行</translation>
        </message>
        <message>
            <source>Resume…</source>
            <translation>续训…</translation>
        </message>
        <message>
            <source>Rerun…</source>
            <translation>重跑…</translation>
        </message>
        <message>
            <source>Clone…</source>
            <translation>克隆…</translation>
        </message>
        <message>
            <source>Differences of specs and environments</source>
            <translation>规格与环境的差异</translation>
        </message>
        <message>
            <source>Tags…</source>
            <translation>标签…</translation>
        </message>
        <message>
            <source>Export</source>
            <translation>导出</translation>
        </message>
        <message>
            <source>Export the selected runs</source>
            <translation>导出所选运行</translation>
        </message>
        <message>
            <source>Add and remove tags of the selected runs</source>
            <translation>为所选运行添加和移除标签</translation>
        </message>
        <message>
            <source>Filter: words, tag:good, state:failed, since:7d …</source>
            <translation>筛选：词语、tag:good、state:failed、since:7d …</translation>
        </message>
        <message>
            <source>Filter runs</source>
            <translation>筛选运行</translation>
        </message>
        <message>
            <source>Words are looked for in id, model, notes, strategy, cluster and tags.
tag:x  model:x  strategy:x  cluster:x  comm:x  notes:x   (* stands for any text)
state:failed  state:running,stopped  state:unreachable
since:2026-11-01  before:2026-11-01T12:30  since:today  since:7d
-tag:x  -word: without.  &quot;two words&quot;: as they are.</source>
            <translation>词语在编号、模型、备注、策略、集群和标签中查找。
tag:x  model:x  strategy:x  cluster:x  comm:x  notes:x   （* 代表任意文字）
state:failed  state:running,stopped  state:unreachable
since:2026-11-01  before:2026-11-01T12:30  since:today  since:7d
-tag:x  -词语：不含。  &quot;two words&quot;：原样查找。</translation>
        </message>
        <message>
            <source>Filters</source>
            <translation>筛选</translation>
        </message>
        <message>
            <source>Saved filters</source>
            <translation>已保存的筛选条件</translation>
        </message>
        <message>
            <source>Export report (HTML)…</source>
            <translation>导出报告（HTML）…</translation>
        </message>
        <message>
            <source>No run matches the filter.</source>
            <translation>没有运行符合筛选条件。</translation>
        </message>
        <message>
            <source>Save this filter…</source>
            <translation>保存此筛选条件…</translation>
        </message>
        <message>
            <source>Delete filter</source>
            <translation>删除筛选条件</translation>
        </message>
        <message>
            <source>Write a filter first, then save it.</source>
            <translation>请先写筛选条件，再保存。</translation>
        </message>
        <message>
            <source>Tags</source>
            <translation>标签</translation>
        </message>
        <message>
            <source>epoch</source>
            <translation>轮次</translation>
        </message>
        <message>
            <source>Step</source>
            <translation>步</translation>
        </message>
        <message>
            <source>Time</source>
            <translation>时间</translation>
        </message>
        <message>
            <source>Samples</source>
            <translation>样本</translation>
        </message>
        <message>
            <source>Tokens</source>
            <translation>词元</translation>
        </message>
        <message>
            <source>Horizontal axis</source>
            <translation>横轴</translation>
        </message>
        <message>
            <source>What the curves are laid over</source>
            <translation>曲线所依的横轴</translation>
        </message>
        <message>
            <source>The first %1 of %2 runs are shown.</source>
            <translation>显示 %2 个运行中的前 %1 个。</translation>
        </message>
        <message>
            <source>Learning rate</source>
            <translation>学习率</translation>
        </message>
        <message>
            <source>Gradient norm</source>
            <translation>梯度范数</translation>
        </message>
        <message>
            <source>Save filter</source>
            <translation>保存筛选条件</translation>
        </message>
        <message>
            <source>Save</source>
            <translation>保存</translation>
        </message>
        <message>
            <source>Replaces the filter of this name.</source>
            <translation>将替换同名的筛选条件。</translation>
        </message>
        <message>
            <source>Effective training time</source>
            <translation>有效训练时间</translation>
        </message>
        <message>
            <source>Export to TensorBoard…</source>
            <translation>导出到 TensorBoard…</translation>
        </message>
        <message>
            <source>Energy</source>
            <translation>能耗</translation>
        </message>
        <message>
            <source>Energy per step</source>
            <translation>每步能耗</translation>
        </message>
        <message>
            <source>Export for OpenTelemetry…</source>
            <translation>为 OpenTelemetry 导出…</translation>
        </message>
        <message>
            <source>Compare the specs and environments of the selected runs (lockstep history diff)</source>
            <translation>比较所选运行的规格与环境（lockstep history diff）</translation>
        </message>
        <message>
            <source>What if…</source>
            <translation>假设分析…</translation>
        </message>
        <message>
            <source>Faster strategy…</source>
            <translation>更快的策略…</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::HostKeyDialog</name>
        <message>
            <source>Unknown host key for %1</source>
            <translation>%1 的主机密钥未知</translation>
        </message>
        <message>
            <source>The %1 key of this host is not known yet. Compare its fingerprint with the one that the host's administrator gives you.</source>
            <translation>它的 %1 密钥尚未登记。请与管理员提供的指纹核对。</translation>
        </message>
        <message>
            <source>The certificate authority in %1 is not asked: host certificates are not supported.</source>
            <translation>不会查询 %1 中的证书颁发机构：不支持主机证书。</translation>
        </message>
        <message>
            <source>Fingerprint of the host key</source>
            <translation>主机密钥指纹</translation>
        </message>
        <message>
            <source>A trusted key is saved in %1.</source>
            <translation>信任后，密钥将写入 %1。</translation>
        </message>
        <message>
            <source>Trust this key</source>
            <translation>信任此密钥</translation>
        </message>
        <message>
            <source>Do not connect</source>
            <translation>不连接</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::PredictionView</name>
        <message>
            <source>Energy</source>
            <translation>能耗</translation>
        </message>
        <message>
            <source>GPU power unknown</source>
            <translation>GPU 功率未知</translation>
        </message>
        <message>
            <source>per step</source>
            <translation>每步</translation>
        </message>
        <message>
            <source>per step, %1/h</source>
            <translation>每步，%1/小时</translation>
        </message>
        <message>
            <source>per step, %1 W</source>
            <translation>每步，%1 W</translation>
        </message>
        <message>
            <source>What the program computes and exchanges is not known before.</source>
            <translation>程序的计算与通信无法事先得知。</translation>
        </message>
        <message>
            <source>not benchmarked</source>
            <translation>未做基准测试</translation>
        </message>
        <message>
            <source>benchmarked</source>
            <translation>基准测试结果</translation>
        </message>
        <message>
            <source>rough estimate</source>
            <translation>粗略估计</translation>
        </message>
        <message>
            <source>%1/s</source>
            <translation>%1/秒</translation>
        </message>
        <message>
            <source>samples</source>
            <translation>样本</translation>
        </message>
        <message>
            <source>peak per rank</source>
            <translation>每个 rank 的峰值</translation>
        </message>
        <message>
            <source>per rank per step</source>
            <translation>每个 rank 每步</translation>
        </message>
        <message>
            <source>From a benchmark of these nodes.</source>
            <translation>来自这些节点的基准测试。</translation>
        </message>
        <message>
            <source>Rough estimate from built-in costs. Benchmark the nodes to calibrate it.</source>
            <translation>根据内置开销的粗略估计。对节点做基准测试即可校准。</translation>
        </message>
        <message>
            <source>These settings have not been benchmarked. Compare strategies shows a rough estimate.</source>
            <translation>这些设置尚未做基准测试；其粗略估计见“比较策略”。</translation>
        </message>
        <message>
            <source>rank %1</source>
            <translation>rank %1</translation>
        </message>
        <message>
            <source>Benchmark nodes</source>
            <translation>对节点做基准测试</translation>
        </message>
        <message>
            <source>Connects the nodes and benchmarks these settings</source>
            <translation>连接节点并测量这些设置在其上的耗时</translation>
        </message>
        <message>
            <source>Step time</source>
            <translation>步时</translation>
        </message>
        <message>
            <source>Throughput</source>
            <translation>吞吐量</translation>
        </message>
        <message>
            <source>Memory</source>
            <translation>内存</translation>
        </message>
        <message>
            <source>Traffic</source>
            <translation>通信量</translation>
        </message>
        <message>
            <source>Ranks</source>
            <translation>rank 数</translation>
        </message>
        <message>
            <source>Placement</source>
            <translation>放置</translation>
        </message>
        <message>
            <source>Plan</source>
            <translation>计划</translation>
        </message>
        <message>
            <source>Compare strategies</source>
            <translation>比较策略</translation>
        </message>
        <message>
            <source>Prediction</source>
            <translation>预测</translation>
        </message>
        <message>
            <source>Predicted step time of each rank</source>
            <translation>各 rank 的预测步时</translation>
        </message>
        <message>
            <source>Predicted step time of each rank, as a table</source>
            <translation>各 rank 的预测步时（表格）</translation>
        </message>
        <message>
            <source>Show the data as a table</source>
            <translation>以表格显示数据</translation>
        </message>
        <message>
            <source>Double-click a strategy to choose it</source>
            <translation>双击策略即可选用</translation>
        </message>
        <message>
            <source>Text of the plan</source>
            <translation>计划文本</translation>
        </message>
        <message>
            <source>Pre-flight…</source>
            <translation>预检…</translation>
        </message>
        <message>
            <source>Connects the nodes, measures them and the links between them, and shows what is weak</source>
            <translation>连接节点，测量节点及其之间的链路，并指出薄弱之处</translation>
        </message>
        <message>
            <source>Timeline</source>
            <translation>时间线</translation>
        </message>
        <message>
            <source>Fastest</source>
            <translation>最快</translation>
        </message>
        <message>
            <source>CO2 equivalent of an hour: %1</source>
            <translation>每小时二氧化碳当量：%1</translation>
        </message>
        <message>
            <source>Computing %1, communication %2, waiting %3, other %4</source>
            <translation>计算 %1，通信 %2，等待 %3，其他 %4</translation>
        </message>
        <message>
            <source>What if</source>
            <translation>假设分析</translation>
        </message>
        <message>
            <source>Summary</source>
            <translation>摘要</translation>
        </message>
        <message>
            <source>Summary of the launch</source>
            <translation>启动内容摘要</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::RankFields</name>
        <message>
            <source>Ranks on %1</source>
            <translation>%1 上的 rank 数</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::LaunchDialog</name>
        <message>
            <source>Searching for the fastest strategy</source>
            <translation>正在搜索最快的策略</translation>
        </message>
        <message>
            <source>Starting</source>
            <translation>正在开始</translation>
        </message>
        <message>
            <source>Launch %1</source>
            <translation>启动 %1</translation>
        </message>
        <message>
            <source>Cluster</source>
            <translation>集群</translation>
        </message>
        <message>
            <source>Local nodes</source>
            <translation>本机节点数</translation>
        </message>
        <message>
            <source>Global batch</source>
            <translation>全局批量</translation>
        </message>
        <message>
            <source>Epochs</source>
            <translation>轮数</translation>
        </message>
        <message>
            <source>Precision</source>
            <translation>精度</translation>
        </message>
        <message>
            <source>Communicator</source>
            <translation>通信方式</translation>
        </message>
        <message>
            <source>Command</source>
            <translation>命令</translation>
        </message>
        <message>
            <source>This machine</source>
            <translation>本机</translation>
        </message>
        <message>
            <source>Progress</source>
            <translation>进度</translation>
        </message>
        <message>
            <source>Copy</source>
            <translation>复制</translation>
        </message>
        <message>
            <source>Copy the command</source>
            <translation>复制命令</translation>
        </message>
        <message>
            <source>Launch</source>
            <translation>启动</translation>
        </message>
        <message>
            <source>Cancel</source>
            <translation>取消</translation>
        </message>
        <message>
            <source>Ranks on each node</source>
            <translation>各节点的 rank 数</translation>
        </message>
        <message>
            <source>Resume %1</source>
            <translation>续训 %1</translation>
        </message>
        <message>
            <source>Rerun %1</source>
            <translation>重跑 %1</translation>
        </message>
        <message>
            <source>The run cannot be stopped for another strategy now: it is not training, is asynchronous, or its nodes or shares of the batch are others than at its launch.</source>
            <translation>现在不能为更换策略而停止该运行：它不在训练中、采用异步训练，或其节点或批次分配与启动时不同。</translation>
        </message>
        <message>
            <source>Stop and resume</source>
            <translation>停止并续训</translation>
        </message>
        <message>
            <source>Faster strategy for %1</source>
            <translation>%1 的更快策略</translation>
        </message>
        <message>
            <source>Choose a strategy. Run %1 finishes its step, saves a checkpoint and stops, and is resumed with it as a new run.</source>
            <translation>请选择一个策略。运行 %1 将完成当前步、保存检查点并停止，然后用该策略续训，作为新的运行。</translation>
        </message>
        <message>
            <source>Choose a strategy. Run %1 is launched again with it from its start, as a new run.</source>
            <translation>请选择一个策略。运行 %1 将用该策略从头再次启动，作为新的运行。</translation>
        </message>
        <message>
            <source>Choose a strategy. Run %1 is resumed with it from its last checkpoint, as a new run.</source>
            <translation>请选择一个策略。运行 %1 将用该策略从最后一个检查点续训，作为新的运行。</translation>
        </message>
        <message>
            <source>Stopping the run: it finishes its step and saves a checkpoint</source>
            <translation>正在停止运行：它将完成当前步并保存检查点</translation>
        </message>
        <message>
            <source>Continues run %1 from its last checkpoint, as a new run.</source>
            <translation>从运行 %1 的最后一个检查点继续，作为新的运行。</translation>
        </message>
        <message>
            <source>Launches run %1 again from its start, as a new run.</source>
            <translation>从头再次启动运行 %1，作为新的运行。</translation>
        </message>
        <message>
            <source>%1 in %2</source>
            <translation>%1（%2）</translation>
        </message>
        <message>
            <source>no nodes yet</source>
            <translation>尚无节点</translation>
        </message>
        <message>
            <source>local agents, %1 cores</source>
            <translation>本机代理，%1 个核</translation>
        </message>
        <message>
            <source>Unsaved changes are saved at launch: %1</source>
            <translation>启动时将保存未保存的更改：%1</translation>
        </message>
        <message>
            <source>Benchmarking the nodes</source>
            <translation>正在对节点做基准测试</translation>
        </message>
        <message>
            <source>Launching</source>
            <translation>正在启动</translation>
        </message>
        <message>
            <source>Launching when the prediction is ready</source>
            <translation>预测完成后立即启动</translation>
        </message>
        <message>
            <source>Model</source>
            <translation>模型</translation>
        </message>
        <message>
            <source>Run spec to launch: model, data, training and strategy</source>
            <translation>要启动的运行规格：模型、数据、训练和策略</translation>
        </message>
        <message>
            <source>Cluster to run on</source>
            <translation>在哪里运行</translation>
        </message>
        <message>
            <source>Agents on this machine, each with one rank</source>
            <translation>本机上的代理，每个一个 rank</translation>
        </message>
        <message>
            <source>Number of ranks on each node; overrides the cluster</source>
            <translation>每个节点上的 rank 数，以此为准而不以集群文件为准</translation>
        </message>
        <message>
            <source>Communicator between ranks; overrides the cluster</source>
            <translation>rank 间如何交换数据，以此为准而不以集群文件为准</translation>
        </message>
        <message>
            <source>Automatic</source>
            <translation>自动</translation>
        </message>
        <message>
            <source>Until the step limit</source>
            <translation>直到步数上限</translation>
        </message>
        <message>
            <source>More options</source>
            <translation>更多选项</translation>
        </message>
        <message>
            <source>Compression, recomputation, overlap, learning rate schedule, communicator</source>
            <translation>压缩、重计算、重叠、学习率调度与通信方式</translation>
        </message>
        <message>
            <source>Queue again after the time limit</source>
            <translation>到时间限制后重新排队</translation>
        </message>
        <message>
            <source>Benchmark nodes before launch</source>
            <translation>启动前对节点做基准测试</translation>
        </message>
        <message>
            <source>Benchmarks the first node for about 2 seconds, to calibrate plan and prediction</source>
            <translation>在第一个节点上测量计划约 2 秒，使计划和预测以此为准</translation>
        </message>
        <message>
            <source>Command that launches the same run from a terminal</source>
            <translation>在终端中启动同样的运行</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::RunLaunch</name>
        <message>
            <source>Making data</source>
            <translation>正在生成数据</translation>
        </message>
        <message>
            <source>Connecting</source>
            <translation>正在连接</translation>
        </message>
        <message>
            <source>Copying data</source>
            <translation>正在复制数据</translation>
        </message>
        <message>
            <source>Fetching data</source>
            <translation>正在获取数据</translation>
        </message>
        <message>
            <source>Checking data</source>
            <translation>正在检查数据</translation>
        </message>
        <message>
            <source>Setting up</source>
            <translation>正在准备程序</translation>
        </message>
        <message>
            <source>Preparing</source>
            <translation>正在准备</translation>
        </message>
        <message>
            <source>Cleaning up</source>
            <translation>正在清理</translation>
        </message>
        <message>
            <source>%1: %2</source>
            <translation>%1：%2</translation>
        </message>
        <message>
            <source>%1: waiting for %2 (%3 s, %4 of %5 MB)</source>
            <translation>%1：等待 %2 已 %3 秒，%4 / %5 MB</translation>
        </message>
        <message>
            <source>%1: waiting for %2 (%3 s)</source>
            <translation>%1：等待 %2 已 %3 秒</translation>
        </message>
        <message>
            <source>%1 runs %2</source>
            <translation>%1 正在运行 %2</translation>
        </message>
        <message>
            <source>Launching</source>
            <translation>正在启动</translation>
        </message>
        <message>
            <source>Cancelling</source>
            <translation>正在取消</translation>
        </message>
        <message>
            <source>Starting</source>
            <translation>正在开始</translation>
        </message>
        <message>
            <source>Benchmarking the nodes</source>
            <translation>正在对节点做基准测试</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::LayerTableModel</name>
        <message>
            <source>layer %1</source>
            <translation>层 %1</translation>
        </message>
        <message>
            <source>Layer</source>
            <translation>层</translation>
        </message>
        <message>
            <source>Kind</source>
            <translation>类型</translation>
        </message>
        <message>
            <source>Output</source>
            <translation>输出</translation>
        </message>
        <message>
            <source>Parameters</source>
            <translation>参数</translation>
        </message>
        <message>
            <source>Forward</source>
            <translation>前向</translation>
        </message>
        <message>
            <source>Activations</source>
            <translation>激活</translation>
        </message>
        <message>
            <source>Change stages</source>
            <translation>更改阶段</translation>
        </message>
        <message>
            <source>Stage</source>
            <translation>阶段</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::LogModel</name>
        <message>
            <source>%1 · rank %2</source>
            <translation>%1 · rank %2</translation>
        </message>
        <message>
            <source>Time</source>
            <translation>时间</translation>
        </message>
        <message>
            <source>Where</source>
            <translation>位置</translation>
        </message>
        <message>
            <source>Line</source>
            <translation>日志行</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::MainWindow</name>
        <message>
            <source>&amp;Pictures to a data set…</source>
            <translation>图片转换为数据集(&amp;P)…</translation>
        </message>
        <message>
            <source>&amp;Learn</source>
            <translation>学习(&amp;L)</translation>
        </message>
        <message>
            <source>%1 (and %2 more)</source>
            <translation>%1（另有 %2 项）</translation>
        </message>
        <message>
            <source>Unsaved text was recovered.</source>
            <translation>已恢复未保存的文本。</translation>
        </message>
        <message>
            <source>Undo restores the saved text.</source>
            <translation>撤销即可回到保存时的文本。</translation>
        </message>
        <message>
            <source>There is no example %1.</source>
            <translation>没有名为 %1 的示例。</translation>
        </message>
        <message>
            <source>The examples folder was not found next to the program.</source>
            <translation>在程序旁边没有找到示例目录。</translation>
        </message>
        <message>
            <source>%1 has unsaved changes.</source>
            <translation>%1 有未保存的更改。</translation>
        </message>
        <message>
            <source>Save it first, or close it without saving.</source>
            <translation>请先保存，或不保存直接关闭。</translation>
        </message>
        <message>
            <source>Close without saving</source>
            <translation>不保存关闭</translation>
        </message>
        <message>
            <source>%1 – Lockstep</source>
            <translation>%1 – Lockstep</translation>
        </message>
        <message>
            <source>Lockstep</source>
            <translation>Lockstep</translation>
        </message>
        <message>
            <source>Nothing yet</source>
            <translation>暂无</translation>
        </message>
        <message>
            <source>Open</source>
            <translation>打开</translation>
        </message>
        <message>
            <source>Specs (*.yaml *.yml);;All files (*)</source>
            <translation>规格 (*.yaml *.yml);;所有文件 (*)</translation>
        </message>
        <message>
            <source>Import a hostfile or TF_CONFIG</source>
            <translation>导入 hostfile 或 TF_CONFIG</translation>
        </message>
        <message>
            <source>All files (*)</source>
            <translation>所有文件 (*)</translation>
        </message>
        <message>
            <source>Save as</source>
            <translation>另存为</translation>
        </message>
        <message>
            <source>Specs (*.yaml)</source>
            <translation>规格 (*.yaml)</translation>
        </message>
        <message>
            <source>&amp;New cluster</source>
            <translation>新建集群(&amp;N)</translation>
        </message>
        <message>
            <source>&amp;Open…</source>
            <translation>打开(&amp;O)…</translation>
        </message>
        <message>
            <source>&amp;Import hostfile or TF_CONFIG…</source>
            <translation>导入 hostfile 或 TF_CONFIG(&amp;I)…</translation>
        </message>
        <message>
            <source>&amp;Save</source>
            <translation>保存(&amp;S)</translation>
        </message>
        <message>
            <source>Save &amp;as…</source>
            <translation>另存为(&amp;A)…</translation>
        </message>
        <message>
            <source>&amp;Close tab</source>
            <translation>关闭标签页(&amp;C)</translation>
        </message>
        <message>
            <source>&amp;Quit</source>
            <translation>退出(&amp;Q)</translation>
        </message>
        <message>
            <source>&amp;Undo</source>
            <translation>撤销(&amp;U)</translation>
        </message>
        <message>
            <source>&amp;Redo</source>
            <translation>重做(&amp;R)</translation>
        </message>
        <message>
            <source>Restore &amp;default layout</source>
            <translation>恢复默认布局(&amp;D)</translation>
        </message>
        <message>
            <source>Dar&amp;k theme</source>
            <translation>深色主题(&amp;K)</translation>
        </message>
        <message>
            <source>&amp;Connect nodes</source>
            <translation>连接节点(&amp;C)</translation>
        </message>
        <message>
            <source>&amp;Disconnect nodes</source>
            <translation>断开节点(&amp;D)</translation>
        </message>
        <message>
            <source>&amp;Add host…</source>
            <translation>添加主机(&amp;A)…</translation>
        </message>
        <message>
            <source>&amp;Launch…</source>
            <translation>启动(&amp;L)…</translation>
        </message>
        <message>
            <source>&amp;Take a checkpoint</source>
            <translation>保存检查点(&amp;T)</translation>
        </message>
        <message>
            <source>&amp;Stop run</source>
            <translation>停止运行(&amp;S)</translation>
        </message>
        <message>
            <source>&amp;Faster strategy…</source>
            <translation>更快的策略(&amp;F)…</translation>
        </message>
        <message>
            <source>&amp;Kill run</source>
            <translation>终止运行(&amp;K)</translation>
        </message>
        <message>
            <source>&amp;History</source>
            <translation>历史(&amp;H)</translation>
        </message>
        <message>
            <source>&amp;Welcome</source>
            <translation>欢迎页(&amp;W)</translation>
        </message>
        <message>
            <source>Run the exa&amp;mple on this machine</source>
            <translation>在本机运行示例(&amp;M)</translation>
        </message>
        <message>
            <source>Command &amp;palette…</source>
            <translation>命令面板(&amp;P)…</translation>
        </message>
        <message>
            <source>Next &amp;tab</source>
            <translation>下一个标签页(&amp;T)</translation>
        </message>
        <message>
            <source>&amp;About Lockstep</source>
            <translation>关于 Lockstep(&amp;A)</translation>
        </message>
        <message>
            <source>&amp;File</source>
            <translation>文件(&amp;F)</translation>
        </message>
        <message>
            <source>&amp;Edit</source>
            <translation>编辑(&amp;E)</translation>
        </message>
        <message>
            <source>&amp;View</source>
            <translation>视图(&amp;V)</translation>
        </message>
        <message>
            <source>&amp;Cluster</source>
            <translation>集群(&amp;C)</translation>
        </message>
        <message>
            <source>&amp;Run</source>
            <translation>运行(&amp;R)</translation>
        </message>
        <message>
            <source>&amp;Help</source>
            <translation>帮助(&amp;H)</translation>
        </message>
        <message>
            <source>Op&amp;en recent</source>
            <translation>最近打开(&amp;E)</translation>
        </message>
        <message>
            <source>Lan&amp;guage</source>
            <translation>语言(&amp;G)</translation>
        </message>
        <message>
            <source>Navigator</source>
            <translation>导航</translation>
        </message>
        <message>
            <source>Inspector</source>
            <translation>检查器</translation>
        </message>
        <message>
            <source>Messages</source>
            <translation>消息</translation>
        </message>
        <message>
            <source>Tools</source>
            <translation>工具</translation>
        </message>
        <message>
            <source>Documents</source>
            <translation>文档</translation>
        </message>
        <message>
            <source>Progress</source>
            <translation>进度</translation>
        </message>
        <message>
            <source>Cancel</source>
            <translation>取消</translation>
        </message>
        <message>
            <source>Cancel: %1</source>
            <translation>取消：%1</translation>
        </message>
        <message>
            <source>Status</source>
            <translation>状态</translation>
        </message>
        <message>
            <source>&amp;Resume run…</source>
            <translation>续训(&amp;R)…</translation>
        </message>
        <message>
            <source>R&amp;erun…</source>
            <translation>重跑(&amp;E)…</translation>
        </message>
        <message>
            <source>&amp;Clone as new model…</source>
            <translation>克隆为新模型(&amp;C)…</translation>
        </message>
        <message>
            <source>run %1</source>
            <translation>运行 %1</translation>
        </message>
        <message>
            <source>cluster of run %1</source>
            <translation>运行 %1 的集群</translation>
        </message>
        <message>
            <source>&amp;Find</source>
            <translation>查找(&amp;F)</translation>
        </message>
        <message>
            <source>&amp;Preferences…</source>
            <translation>首选项(&amp;P)…</translation>
        </message>
        <message>
            <source>Pre&amp;vious tab</source>
            <translation>上一个标签页(&amp;V)</translation>
        </message>
        <message>
            <source>&amp;Keyboard shortcuts…</source>
            <translation>键盘快捷键(&amp;K)…</translation>
        </message>
        <message>
            <source>New &amp;model…</source>
            <translation>新建模型(&amp;M)…</translation>
        </message>
        <message>
            <source>New &amp;run…</source>
            <translation>新建运行(&amp;R)…</translation>
        </message>
        <message>
            <source>A&amp;lert rules…</source>
            <translation>告警规则(&amp;L)…</translation>
        </message>
        <message>
            <source>Alert rules</source>
            <translation>告警规则</translation>
        </message>
        <message>
            <source>&amp;Back</source>
            <translation>后退(&amp;B)</translation>
        </message>
        <message>
            <source>&amp;Forward</source>
            <translation>前进(&amp;F)</translation>
        </message>
        <message>
            <source>Copy &amp;link to this place</source>
            <translation>复制此处的链接(&amp;L)</translation>
        </message>
        <message>
            <source>Open lin&amp;k…</source>
            <translation>打开链接(&amp;K)…</translation>
        </message>
        <message>
            <source>The link was copied.</source>
            <translation>链接已复制。</translation>
        </message>
        <message>
            <source>Open it with File → Open link, or `lockstep open &apos;%1&apos;`.</source>
            <translation>用“文件 → 打开链接”或 `lockstep open &apos;%1&apos;` 打开它。</translation>
        </message>
        <message>
            <source>Open link</source>
            <translation>打开链接</translation>
        </message>
        <message>
            <source>A link that was copied here or in another studio:</source>
            <translation>在此处或另一个工作室中复制的链接：</translation>
        </message>
        <message>
            <source>E&amp;xport report…</source>
            <translation>导出报告(&amp;X)…</translation>
        </message>
        <message>
            <source>&amp;Verify the strategy…</source>
            <translation>验证策略(&amp;V)…</translation>
        </message>
        <message>
            <source>Verify the strategy</source>
            <translation>验证策略</translation>
        </message>
        <message>
            <source>Checks on this machine that the strategy computes on several ranks what one rank computes. Unsaved changes of the model are saved first.</source>
            <translation>在本机上检查该策略在多个 rank 上的计算结果与单个 rank 相同。运行前会先保存模型未保存的更改。</translation>
        </message>
        <message>
            <source>&amp;Simulate a step…</source>
            <translation>模拟一步(&amp;S)…</translation>
        </message>
        <message>
            <source>Simulate a step</source>
            <translation>模拟一步</translation>
        </message>
        <message>
            <source>Plans the model for several nodes, and shows when each rank does what in a step. Unsaved changes of the model are saved first.</source>
            <translation>为模型制定多个节点上的计划，并显示各 rank 在一步中何时做什么。运行前会先保存模型未保存的更改。</translation>
        </message>
        <message>
            <source>&amp;Benchmark this machine…</source>
            <translation>本机基准测试(&amp;B)…</translation>
        </message>
        <message>
            <source>Benchmark this machine</source>
            <translation>本机基准测试</translation>
        </message>
        <message>
            <source>Trains the model for some seconds on this machine, and measures the samples per second. Unsaved changes of the model are saved first.</source>
            <translation>在本机上训练模型数秒，测量每秒样本数。运行前会先保存模型未保存的更改。</translation>
        </message>
        <message>
            <source>&amp;Check this machine…</source>
            <translation>检查本机(&amp;C)…</translation>
        </message>
        <message>
            <source>Check this machine</source>
            <translation>检查本机</translation>
        </message>
        <message>
            <source>Looks at what Lockstep needs here, and tries it.</source>
            <translation>检查并试用 Lockstep 在本机所需的一切。</translation>
        </message>
        <message>
            <source>&amp;Tools</source>
            <translation>工具(&amp;T)</translation>
        </message>
        <message>
            <source>The cluster was imported.</source>
            <translation>集群已导入。</translation>
        </message>
        <message>
            <source>In a terminal: %1</source>
            <translation>在终端中：%1</translation>
        </message>
        <message>
            <source>De&amp;ploy agents…</source>
            <translation>部署代理(&amp;P)…</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::Message</name>
        <message>
            <source>Operating system</source>
            <translation>操作系统</translation>
        </message>
        <message>
            <source>Kernel</source>
            <translation>内核</translation>
        </message>
        <message>
            <source>CPU</source>
            <translation>CPU</translation>
        </message>
        <message>
            <source>Cores</source>
            <translation>核心数</translation>
        </message>
        <message>
            <source>Memory</source>
            <translation>内存</translation>
        </message>
        <message>
            <source>GPUs</source>
            <translation>GPU</translation>
        </message>
        <message>
            <source>GPU driver</source>
            <translation>GPU 驱动程序</translation>
        </message>
        <message>
            <source>Agent</source>
            <translation>代理</translation>
        </message>
        <message>
            <source>the picture %1</source>
            <translation>图片 %1</translation>
        </message>
        <message>
            <source>there are no pictures</source>
            <translation>没有图片</translation>
        </message>
        <message>
            <source>the images are too large for one file</source>
            <translation>图像对于一个文件而言太大</translation>
        </message>
        <message>
            <source>%1 of %2x%3x%4 bytes are %5 GiB; a file has at most %6</source>
            <translation>%1 幅 %2x%3x%4 字节的图像共 %5 GiB；一个文件最多 %6 GiB</translation>
        </message>
        <message>
            <source>%1 does not exist</source>
            <translation>%1 不存在</translation>
        </message>
        <message>
            <source>the name of a class was expected</source>
            <translation>此处应为类别名</translation>
        </message>
        <message>
            <source>the class %1 stands there twice</source>
            <translation>类别 %1 出现了两次</translation>
        </message>
        <message>
            <source>choose a smaller size, or fewer pictures</source>
            <translation>请选择更小的尺寸，或减少图片</translation>
        </message>
        <message>
            <source>it is %1x%2; at most %3 million pixels are read</source>
            <translation>它是 %1x%2；最多读取 %3 百万像素</translation>
        </message>
        <message>
            <source>no memory for the JPEG decoder</source>
            <translation>没有内存用于 JPEG 解码器</translation>
        </message>
        <message>
            <source>as a JPEG file it is damaged: %1</source>
            <translation>作为 JPEG 文件，它已损坏：%1</translation>
        </message>
        <message>
            <source>its colours are CMYK; expected RGB or grey</source>
            <translation>它的颜色是 CMYK；应为 RGB 或灰度</translation>
        </message>
        <message>
            <source>as a PNG file it is damaged: %1</source>
            <translation>作为 PNG 文件，它已损坏：%1</translation>
        </message>
        <message>
            <source>it is neither a JPEG nor a PNG file</source>
            <translation>它既不是 JPEG 也不是 PNG 文件</translation>
        </message>
        <message>
            <source>%1 has the class %2</source>
            <translation>%1 含有类别 %2</translation>
        </message>
        <message>
            <source>the given classes are %1</source>
            <translation>给定的类别为 %1</translation>
        </message>
        <message>
            <source>%1 has no folders</source>
            <translation>%1 中没有文件夹</translation>
        </message>
        <message>
            <source>each folder in it is a class of pictures</source>
            <translation>其中每个文件夹是一类图片</translation>
        </message>
        <message>
            <source>%1, line %2</source>
            <translation>%1，第 %2 行</translation>
        </message>
        <message>
            <source>a path and a class were expected, with a tab or a space between them</source>
            <translation>此处应为路径和类别，以制表符或空格分隔</translation>
        </message>
        <message>
            <source>the class is missing</source>
            <translation>缺少类别</translation>
        </message>
        <message>
            <source>GPUs are priced by the peaks in the cluster and what is reached of such: %1 TFLOP/s in %2, %3 GB/s of memory; connect the nodes to measure</source>
            <translation>GPU 按集群中所写峰值及其可达比例估价：%2 下 %1 TFLOP/s，显存 %3 GB/s；连接节点即可测量</translation>
        </message>
        <message>
            <source>GPUs are priced as %1 by its data sheet and what is reached of such: %2 TFLOP/s in %3, %4 GB/s of memory; connect the nodes to measure</source>
            <translation>GPU 按 %1 的数据手册及其可达比例估价：%3 下 %2 TFLOP/s，显存 %4 GB/s；连接节点即可测量</translation>
        </message>
        <message>
            <source>of it, CUDA contexts, workspaces and NCCL take %1</source>
            <translation>其中 CUDA 上下文、工作区与 NCCL 占 %1</translation>
        </message>
        <message>
            <source>%1; it is priced as %2 until its node is connected</source>
            <translation>%1；在其节点连接之前，按 %2 计</translation>
        </message>
        <message>
            <source>communication along axis %1 is priced at %2 per rank and direction</source>
            <translation>沿轴 %1 的通信按每个 rank 每个方向 %2 估价</translation>
        </message>
        <message>
            <source>%1 is given for a device of kind cpu; expected kind: cuda</source>
            <translation>为类型 cpu 的设备给出了 %1；应为 kind: cuda</translation>
        </message>
        <message>
            <source>%1 and inside are both given; expected from and to, or inside</source>
            <translation>同时给出了 %1 与 inside；应为 from 与 to，或 inside</translation>
        </message>
        <message>
            <source>%1 is missing; expected from and to, or inside</source>
            <translation>缺少 %1；应为 from 与 to，或 inside</translation>
        </message>
        <message>
            <source>rails are adapters between nodes; expected it left out</source>
            <translation>rails 是节点之间的网卡；应不写</translation>
        </message>
        <message>
            <source>%1 links nodes; expected nvlink or pcie</source>
            <translation>%1 连接的是节点；应为 nvlink 或 pcie</translation>
        </message>
        <message>
            <source>%1 links the devices of a node; expected it with inside, or a kind of network</source>
            <translation>%1 连接的是节点内的设备；应与 inside 一起使用，或改为一种网络</translation>
        </message>
        <message>
            <source>no node has a name like %1</source>
            <translation>没有名称形如 %1 的节点</translation>
        </message>
        <message>
            <source>both ends are node %1; expected inside: %2, or another node</source>
            <translation>两端都是节点 %1；应为 inside: %2，或另一个节点</translation>
        </message>
        <message>
            <source>it never applies: earlier entries match the same nodes; expected it before them, or left out</source>
            <translation>它从不适用：前面的条目匹配同样的节点；应放在它们之前，或不写</translation>
        </message>
        <message>
            <source>[%1] is no range: %2 has more than %3 digits</source>
            <translation>[%1] 不是范围：%2 多于 %3 位数字</translation>
        </message>
        <message>
            <source>[%1] is no range: %2 is after %3</source>
            <translation>[%1] 不是范围：%2 在 %3 之后</translation>
        </message>
        <message>
            <source>a name with ranges has %1 characters; expected %2 at most</source>
            <translation>带范围的名称有 %1 个字符；最多应为 %2 个</translation>
        </message>
        <message>
            <source>%1 has more than %2 ranges</source>
            <translation>%1 的范围多于 %2 个</translation>
        </message>
        <message>
            <source>%1 nodes of %2 KiB each are too large; at most %3 MiB of nodes are read</source>
            <translation>%1 个节点各 %2 KiB，过大；最多读取 %3 MiB 的节点</translation>
        </message>
        <message>
            <source>%1 has a range beside *, which matches digits too; expected a character between them, as n[1-4]-*</source>
            <translation>%1 中范围与 * 相邻，而 * 也匹配数字；两者之间应有一个字符，如 n[1-4]-*</translation>
        </message>
        <message>
            <source>%1 stands for %2, and there is no such node</source>
            <translation>%1 包含 %2，而没有这个节点</translation>
        </message>
        <message>
            <source>name has %1 characters; expected %2 at most</source>
            <translation>name 有 %1 个字符；最多应为 %2 个</translation>
        </message>
        <message>
            <source>there are more than %1 links</source>
            <translation>链路多于 %1 条</translation>
        </message>
        <message>
            <source>the replay was cancelled</source>
            <translation>重放已取消</translation>
        </message>
        <message>
            <source>no memory for the PNG decoder</source>
            <translation>没有内存可供 PNG 解码器使用</translation>
        </message>
        <message>
            <source>cannot list %1</source>
            <translation>无法列出 %1</translation>
        </message>
        <message>
            <source>%1 has a class with a line break in its name</source>
            <translation>%1 有一个名称中含换行符的类别</translation>
        </message>
        <message>
            <source>its features have %1 values, each of which would be a column; at most %2 are written</source>
            <translation>其特征共有 %1 个值，每个值为一列；最多写入 %2 列</translation>
        </message>
        <message>
            <source>[%1] is no range; expected numbers as [1-8] or [1,3,5-8]</source>
            <translation>[%1] 不是范围；应为 [1-8] 或 [1,3,5-8] 这样的数字</translation>
        </message>
        <message>
            <source>%1 has several ranges; write what is left of it as several nodes</source>
            <translation>%1 有多个范围；请把余下的节点分成几项书写</translation>
        </message>
        <message>
            <source>[%1] stands for more than %2 names</source>
            <translation>[%1] 表示的名称多于 %2 个</translation>
        </message>
        <message>
            <source>%1 stands for %2, and the node&apos;s name %3 for %4; expected as many</source>
            <translation>%1 表示 %2 个，而节点名称 %3 表示 %4 个；应一样多</translation>
        </message>
        <message>
            <source>there are more than %1 nodes</source>
            <translation>节点多于 %1 个</translation>
        </message>
        <message>
            <source>%1 stands for more than %2 names</source>
            <translation>%1 表示的名称多于 %2 个</translation>
        </message>
        <message>
            <source>the energy of the run is not known: no node has told of its load</source>
            <translation>运行的能耗未知：没有节点报告过负载</translation>
        </message>
        <message>
            <source>idle_watts is given without busy_watts; expected both</source>
            <translation>给出了 idle_watts 而没有 busy_watts；应同时给出</translation>
        </message>
        <message>
            <source>busy_watts is less than idle_watts; expected at least %1</source>
            <translation>busy_watts 小于 idle_watts；应至少为 %1</translation>
        </message>
        <message>
            <source>the currency is no code; expected up to %1 letters, as EUR</source>
            <translation>货币不是代码；应为最多 %1 个字母，如 EUR</translation>
        </message>
        <message>
            <source>the forward pass was cancelled</source>
            <translation>前向计算已取消</translation>
        </message>
        <message>
            <source>--outputs: a sample has %1 outputs, and a table at most %2 columns</source>
            <translation>--outputs：每个样本有 %1 个输出，而一个表最多 %2 列</translation>
        </message>
        <message>
            <source>--out %1: it has the data</source>
            <translation>--out %1：其中是数据</translation>
        </message>
        <message>
            <source>`%1` printed more than the limit</source>
            <translation>`%1` 的输出超过了限制</translation>
        </message>
        <message>
            <source>the plan that the history has of it is damaged: %1</source>
            <translation>历史中它的计划已损坏：%1</translation>
        </message>
        <message>
            <source>%1 is &apos;%2&apos;, expected a whole number</source>
            <translation>%1 是 '%2'，应为整数</translation>
        </message>
        <message>
            <source>slider %1 is of the simulation: a real run cannot set it</source>
            <translation>滑块 %1 属于模拟：真实运行无法设置它</translation>
        </message>
        <message>
            <source>there is no figure &apos;%1&apos;</source>
            <translation>没有名为 '%1' 的数值</translation>
        </message>
        <message>
            <source>it is reached at the start</source>
            <translation>一开始就已经达到</translation>
        </message>
        <message>
            <source>page %1 reaches it</source>
            <translation>第 %1 页就已经达到</translation>
        </message>
        <message>
            <source>its solution does not reach it</source>
            <translation>它的解答达不到</translation>
        </message>
        <message>
            <source>cannot read stdin</source>
            <translation>无法读取标准输入</translation>
        </message>
        <message>
            <source>stdin ends after %1 of %2 bytes</source>
            <translation>标准输入在 %2 字节中的第 %1 字节之后结束</translation>
        </message>
        <message>
            <source>cannot write stdout</source>
            <translation>无法写入标准输出</translation>
        </message>
        <message>
            <source>stdin is not what lockstep predict writes</source>
            <translation>标准输入不是 lockstep predict 所写的内容</translation>
        </message>
        <message>
            <source>stdin ends before the plan</source>
            <translation>标准输入在计划之前结束</translation>
        </message>
        <message>
            <source>the plan of %1 gives no output</source>
            <translation>%1 的计划没有输出</translation>
        </message>
        <message>
            <source>stdin ends amid a batch</source>
            <translation>标准输入在一个批次中途结束</translation>
        </message>
        <message>
            <source>a forward pass is run by one rank, and the plan is of %1</source>
            <translation>前向计算由一个 rank 执行，而计划是 %1 个 rank 的</translation>
        </message>
        <message>
            <source>the process that runs the model ended</source>
            <translation>运行模型的进程已结束</translation>
        </message>
        <message>
            <source>signal %1</source>
            <translation>信号 %1</translation>
        </message>
        <message>
            <source>%1 is not of this model</source>
            <translation>%1 不属于此模型</translation>
        </message>
        <message>
            <source>it has no %1</source>
            <translation>其中没有 %1</translation>
        </message>
        <message>
            <source>its %1 is %2[%3], the model&apos;s f32[%4]</source>
            <translation>其 %1 为 %2[%3]，模型的为 f32[%4]</translation>
        </message>
        <message>
            <source>the weights are %1 MiB; an ONNX file has at most %2</source>
            <translation>权重为 %1 MiB；ONNX 文件最多 %2</translation>
        </message>
        <message>
            <source>the model is %1 MiB; an ONNX file has at most %2</source>
            <translation>模型为 %1 MiB；ONNX 文件最多 %2</translation>
        </message>
        <message>
            <source>the run is a program of your own, whose model Lockstep does not know</source>
            <translation>此运行是您自己的程序，Lockstep 不了解其模型</translation>
        </message>
        <message>
            <source>links are told apart of at most %1 ranks, and the run has %2</source>
            <translation>最多可区分 %1 个 rank 的链路，而此运行有 %2 个</translation>
        </message>
        <message>
            <source>its steps took no time</source>
            <translation>其步没有用时</translation>
        </message>
        <message>
            <source>the run had other numbers of ranks on its nodes</source>
            <translation>此运行在其节点上的 rank 数不同</translation>
        </message>
        <message>
            <source>the run had another kind of communication</source>
            <translation>此运行使用了另一种通信方式</translation>
        </message>
        <message>
            <source>the plans of its %1 ranks have %2 steps, of at most %3</source>
            <translation>其 %1 个 rank 的计划有 %2 步，最多为 %3 步</translation>
        </message>
        <message>
            <source>ask it of fewer ranks, or of fewer micro-batches</source>
            <translation>请减少 rank 数或微批次数后再问</translation>
        </message>
        <message>
            <source>its cluster has changed</source>
            <translation>其集群已变更</translation>
        </message>
        <message>
            <source>the run cannot be planned anew</source>
            <translation>此运行无法重新规划</translation>
        </message>
        <message>
            <source>the predicted step cannot be replayed</source>
            <translation>预测的步无法重放</translation>
        </message>
        <message>
            <source>the nodes of run %1 have changed: their speeds are not known</source>
            <translation>运行 %1 的节点已变更：其速度未知</translation>
        </message>
        <message>
            <source>the cluster of run %1 has changed</source>
            <translation>运行 %1 的集群已变更</translation>
        </message>
        <message>
            <source>what a program of the user&apos;s own computes is not known before</source>
            <translation>用户自己的程序计算什么，事先并不知道</translation>
        </message>
        <message>
            <source>the simulation has no events of it</source>
            <translation>模拟中没有它的事件</translation>
        </message>
        <message>
            <source>the scheduler has not allocated its nodes</source>
            <translation>调度器尚未分配其节点</translation>
        </message>
        <message>
            <source>node %1 has several kinds of devices</source>
            <translation>节点 %1 有多种设备</translation>
        </message>
        <message>
            <source>its nodes are %1</source>
            <translation>其节点为 %1</translation>
        </message>
        <message>
            <source>the ranks of %1 and %2 exchange nothing with each other</source>
            <translation>%1 与 %2 的 rank 之间不交换任何数据</translation>
        </message>
        <message>
            <source>the steps of run %1 cannot be replayed</source>
            <translation>运行 %1 的步无法重放</translation>
        </message>
        <message>
            <source>it was planned for %1 ranks and went on with %2</source>
            <translation>它按 %1 个 rank 规划，后来以 %2 个 rank 继续</translation>
        </message>
        <message>
            <source>rank %1 has no other rank to be as fast as</source>
            <translation>rank %1 没有可以对照的其他 rank</translation>
        </message>
        <message>
            <source>there is no rank %1: the run has ranks 0 to %2</source>
            <translation>没有 rank %1：该运行的 rank 为 0 到 %2</translation>
        </message>
        <message>
            <source>the run has no bubble: its plan is not a pipeline</source>
            <translation>该运行没有气泡：其计划不是流水线</translation>
        </message>
        <message>
            <source>the ranks of the run exchange nothing</source>
            <translation>该运行的 rank 之间不交换任何数据</translation>
        </message>
        <message>
            <source>the history has no plan of it</source>
            <translation>历史中没有它的计划</translation>
        </message>
        <message>
            <source>it is a program of the user&apos;s own, of which there is no plan</source>
            <translation>它是用户自己的程序，没有计划</translation>
        </message>
        <message>
            <source>its training is asynchronous: its ranks do not wait for each other</source>
            <translation>它是异步训练：各 rank 互不等待</translation>
        </message>
        <message>
            <source>the history has the events of none of its steps after the first five</source>
            <translation>历史中没有它前五步之后任何一步的事件</translation>
        </message>
        <message>
            <source>events are recorded of every 50th step, and on request: lockstep profile RUN</source>
            <translation>每 50 步记录一次事件，也可按需记录：lockstep profile RUN</translation>
        </message>
        <message>
            <source>no step after the first five has been reported by all ranks</source>
            <translation>前五步之后没有任何一步由所有 rank 报告</translation>
        </message>
        <message>
            <source>the history does not know the nodes of its ranks</source>
            <translation>历史不知道其 rank 所在的节点</translation>
        </message>
        <message>
            <source>the run has one node</source>
            <translation>该运行只有一个节点</translation>
        </message>
        <message>
            <source>there is no folder %1 with lessons</source>
            <translation>没有放课程的文件夹 %1</translation>
        </message>
        <message>
            <source>the folder %1 has no lessons</source>
            <translation>文件夹 %1 中没有课程</translation>
        </message>
        <message>
            <source>install Lockstep&apos;s lessons, or start the studio from the source tree</source>
            <translation>请安装 Lockstep 的课程，或从源码目录启动工作室</translation>
        </message>
        <message>
            <source>an all-reduce by %1 has no fixed messages</source>
            <translation>用 %1 做 all-reduce 没有固定的消息</translation>
        </message>
        <message>
            <source>&apos;%1&apos; is no option of a run spec and no circumstance; expected %2</source>
            <translation>'%1' 既不是运行规范的选项，也不是情境；应为 %2</translation>
        </message>
        <message>
            <source>%1 is &apos;%2&apos;, expected %3</source>
            <translation>%1 是 '%2'，应为 %3</translation>
        </message>
        <message>
            <source>%1 is &apos;%2&apos;, expected a number from %3 to %4</source>
            <translation>%1 是 '%2'，应为 %3 到 %4 之间的数</translation>
        </message>
        <message>
            <source>the lesson has no slider &apos;%1&apos;</source>
            <translation>课程没有滑块 '%1'</translation>
        </message>
        <message>
            <source>slider %1 has no value &apos;%2&apos;; expected one of %3</source>
            <translation>滑块 %1 没有值 '%2'；应为 %3 之一</translation>
        </message>
        <message>
            <source>longer than %1 bytes</source>
            <translation>长度超过 %1 字节</translation>
        </message>
        <message>
            <source>field &apos;%1&apos; is missing</source>
            <translation>缺少字段 '%1'</translation>
        </message>
        <message>
            <source>expected a number from %1 to %2</source>
            <translation>应为 %1 到 %2 之间的数</translation>
        </message>
        <message>
            <source>expected %1 to %2 items</source>
            <translation>应有 %1 到 %2 项</translation>
        </message>
        <message>
            <source>no view &apos;%1&apos;, expected %2</source>
            <translation>没有视图 '%1'，应为 %2</translation>
        </message>
        <message>
            <source>another slider is named %1</source>
            <translation>另一个滑块也叫 %1</translation>
        </message>
        <message>
            <source>&apos;%1&apos; is not a value</source>
            <translation>'%1' 不是其中的值</translation>
        </message>
        <message>
            <source>&apos;%1&apos; is not among views</source>
            <translation>'%1' 不在 views 之中</translation>
        </message>
        <message>
            <source>there is no option &apos;%1&apos; of a run spec</source>
            <translation>运行规范没有选项 '%1'</translation>
        </message>
        <message>
            <source>no scene &apos;%1&apos;, expected %2</source>
            <translation>没有场景 '%1'，应为 %2</translation>
        </message>
        <message>
            <source>there is no lesson %1</source>
            <translation>没有课程 %1</translation>
        </message>
        <message>
            <source>figure %1 is no number</source>
            <translation>指标 %1 不是数</translation>
        </message>
        <message>
            <source>%1 ranks cannot be divided among nodes of %2 ranks</source>
            <translation>%1 个进程无法分给每个有 %2 个进程的节点</translation>
        </message>
        <message>
            <source>the scene was stopped</source>
            <translation>场景已停止</translation>
        </message>
        <message>
            <source>training was stopped</source>
            <translation>训练已停止</translation>
        </message>
        <message>
            <source>%1 is set by Lockstep; expected a field of placement, or another option</source>
            <translation>%1 由 Lockstep 设置；请使用 placement 的字段，或其他选项</translation>
        </message>
        <message>
            <source>its %1 is not that of %2</source>
            <translation>其 %1 与 %2 的不同</translation>
        </message>
        <message>
            <source>the version is %1 here, %2 there</source>
            <translation>此处版本为 %1，那里为 %2</translation>
        </message>
        <message>
            <source>install the same version on all nodes, or set workload.python.mixed</source>
            <translation>请在所有节点上安装相同版本，或设置 workload.python.mixed</translation>
        </message>
        <message>
            <source>keep a program&apos;s secret variables</source>
            <translation>保存程序的机密变量</translation>
        </message>
        <message>
            <source>read tokens</source>
            <translation>读取词元</translation>
        </message>
        <message>
            <source>%1 is in workload.env too; expected it in one of them</source>
            <translation>%1 也在 workload.env 中；应只出现在其中之一</translation>
        </message>
        <message>
            <source>the environment variable %1 is not set</source>
            <translation>环境变量 %1 未设置</translation>
        </message>
        <message>
            <source>the environment variable %1 is not UTF-8</source>
            <translation>环境变量 %1 不是 UTF-8</translation>
        </message>
        <message>
            <source>workload.env_from names it</source>
            <translation>workload.env_from 中有它</translation>
        </message>
        <message>
            <source>set it where this program is started: export %1=…</source>
            <translation>请在启动本程序之处设置：export %1=…</translation>
        </message>
        <message>
            <source>the variables of workload.env_from have %1 bytes; at most %2 are given to a program</source>
            <translation>workload.env_from 的变量共 %1 字节；最多可给程序 %2 字节</translation>
        </message>
        <message>
            <source>the run&apos;s keys and secret variables have %1 bytes and do not fit into a pipe</source>
            <translation>运行的密钥与机密变量共 %1 字节，放不进管道</translation>
        </message>
        <message>
            <source>it is not a JSON object of tokens and their ids</source>
            <translation>它不是由词元及其编号组成的 JSON 对象</translation>
        </message>
        <message>
            <source>the id of token %1 is %2; expected a number from 0 to %3</source>
            <translation>词元 %1 的编号为 %2；应为 0 到 %3 之间的数</translation>
        </message>
        <message>
            <source>it has no token for the byte %1</source>
            <translation>其中没有字节 %1 的词元</translation>
        </message>
        <message>
            <source>line %1 is not two tokens with a space between them</source>
            <translation>第 %1 行不是以一个空格隔开的两个词元</translation>
        </message>
        <message>
            <source>line %1: the vocabulary has no token %2</source>
            <translation>第 %1 行：词表中没有词元 %2</translation>
        </message>
        <message>
            <source>a sample of %1 tokens cannot be shown</source>
            <translation>无法显示含 %1 个词元的样本</translation>
        </message>
        <message>
            <source>its NumPy header is damaged</source>
            <translation>其 NumPy 文件头已损坏</translation>
        </message>
        <message>
            <source>it is not an array of little-endian integers</source>
            <translation>它不是小端整数的数组</translation>
        </message>
        <message>
            <source>it is not an array of one dimension</source>
            <translation>它不是一维数组</translation>
        </message>
        <message>
            <source>it is compressed by gzip</source>
            <translation>它经过 gzip 压缩</translation>
        </message>
        <message>
            <source>its %1 bytes are not tokens of %2 bytes</source>
            <translation>其 %1 字节不能分为每个 %2 字节的词元</translation>
        </message>
        <message>
            <source>its header tells of %1 tokens; it holds %2</source>
            <translation>其文件头称有 %1 个词元；实际有 %2 个</translation>
        </message>
        <message>
            <source>there is no data file %1</source>
            <translation>没有数据文件 %1</translation>
        </message>
        <message>
            <source>it has become shorter since it was opened</source>
            <translation>自打开以来它变短了</translation>
        </message>
        <message>
            <source>token %1 of it is %2; the vocabulary has %3</source>
            <translation>其第 %1 个词元为 %2；词表只有 %3 个</translation>
        </message>
        <message>
            <source>save it as uint16 or uint32</source>
            <translation>请保存为 uint16 或 uint32</translation>
        </message>
        <message>
            <source>save it flattened</source>
            <translation>请展平后保存</translation>
        </message>
        <message>
            <source>unpack it: tokens are read at any place of a file</source>
            <translation>请先解压：词元会从文件的任意位置读取</translation>
        </message>
        <message>
            <source>correct the path, or put the files there</source>
            <translation>更正路径，或把文件放到该处</translation>
        </message>
        <message>
            <source>raise model.input.vocabulary, or correct data.token_type</source>
            <translation>增大 model.input.vocabulary，或更正 data.token_type</translation>
        </message>
        <message>
            <source>the tokens in %1 are too few</source>
            <translation>%1 中的词元太少</translation>
        </message>
        <message>
            <source>from %1 to %2 of them are %3; a sample takes %4</source>
            <translation>其中 %1 到 %2 的部分有 %3 个；一个样本需要 %4 个</translation>
        </message>
        <message>
            <source>give more of them, or fewer tokens in model.input.shape</source>
            <translation>提供更多词元，或减少 model.input.shape 中的词元数</translation>
        </message>
        <message>
            <source>only texts, tokens and tables can be used in part; expected it left out</source>
            <translation>只有文本、词元和表可以只用一部分；应不写</translation>
        </message>
        <message>
            <source>only tokens have a type; expected it left out</source>
            <translation>只有词元有类型；应不写</translation>
        </message>
        <message>
            <source>files of tokens are not copied to nodes; expected them there, or on storage that the nodes share</source>
            <translation>词元文件不会复制到节点；它们应在节点上，或在节点共享的存储上</translation>
        </message>
        <message>
            <source>the model takes text; expected format %1 or %2</source>
            <translation>模型的输入是文本；格式应为 %1 或 %2</translation>
        </message>
        <message>
            <source>the model takes images; expected format idx, or model.input.vocabulary for text, or model.input.shape [numbers] for a table</source>
            <translation>模型的输入是图像；格式应为 idx，或以 model.input.vocabulary 使用文本，或以 model.input.shape [数值个数] 使用表</translation>
        </message>
        <message>
            <source>the weights in %1 cannot be trained on</source>
            <translation>无法在 %1 中的权重上训练</translation>
        </message>
        <message>
            <source>name other weights in model.init_from, or set training.on_nonfinite=continue to start from these anyway</source>
            <translation>在 model.init_from 中指定其他权重，或设 training.on_nonfinite=continue 以仍从这些权重开始</translation>
        </message>
        <message>
            <source>%1 of %2 values of %3 are too large for %4</source>
            <translation>%3 的 %2 个值中有 %1 个超出 %4 的范围</translation>
        </message>
        <message>
            <source>correct the model or model.init_from.names</source>
            <translation>更正模型或 model.init_from.names</translation>
        </message>
        <message>
            <source>choose a type of a wider range: bf16 or f32</source>
            <translation>选择范围更大的类型：bf16 或 f32</translation>
        </message>
        <message>
            <source>nobody has told where the file of weights is</source>
            <translation>未告知权重文件的位置</translation>
        </message>
        <message>
            <source>name the folder that it is in</source>
            <translation>请指定它所在的文件夹</translation>
        </message>
        <message>
            <source>tensor %1</source>
            <translation>张量 %1</translation>
        </message>
        <message>
            <source>%1 is [%2] there</source>
            <translation>%1 在那里的形状为 [%2]</translation>
        </message>
        <message>
            <source>the file %1 is a part of a checkpoint</source>
            <translation>文件 %1 是检查点的一部分</translation>
        </message>
        <message>
            <source>%1 is not an absolute path; expected that of a folder on the nodes</source>
            <translation>%1 不是绝对路径；应为节点上文件夹的绝对路径</translation>
        </message>
        <message>
            <source>the run has no model.init_from.file</source>
            <translation>运行没有 model.init_from.file</translation>
        </message>
        <message>
            <source>name a checkpoint or a folder of checkpoints on the first node in model.init_from.checkpoint</source>
            <translation>在 model.init_from.checkpoint 中写明第一个节点上的检查点或检查点文件夹</translation>
        </message>
        <message>
            <source>%1 is %2[%3] there, the model has %4[%5]</source>
            <translation>%1 在其中为 %2[%3]，模型中为 %4[%5]</translation>
        </message>
        <message>
            <source>training starts from a part of the weights in %1</source>
            <translation>训练从 %1 中的部分权重开始</translation>
        </message>
        <message>
            <source>start from given weights</source>
            <translation>从给定的权重开始</translation>
        </message>
        <message>
            <source>model.init_from names either a file or a checkpoint; expected one of them</source>
            <translation>model.init_from 写明一个文件或一个检查点；应为其中之一</translation>
        </message>
        <message>
            <source>there is no file; expected it left out</source>
            <translation>没有文件；应省略此项</translation>
        </message>
        <message>
            <source>a checkpoint has the names of the model; expected it left out</source>
            <translation>检查点使用模型的名称；应省略此项</translation>
        </message>
        <message>
            <source>%1 and %2 more</source>
            <translation>%1 及另外 %2 个</translation>
        </message>
        <message>
            <source>missing are %1</source>
            <translation>缺少 %1</translation>
        </message>
        <message>
            <source>left over are %1</source>
            <translation>多余 %1</translation>
        </message>
        <message>
            <source>%1 more have another shape or type</source>
            <translation>另有 %1 个的形状或类型不同</translation>
        </message>
        <message>
            <source>the weights in %1 do not fit the model</source>
            <translation>%1 中的权重与模型不符</translation>
        </message>
        <message>
            <source>%1 is %2 there, the model has %3</source>
            <translation>%1 在其中为 %2，模型中为 %3</translation>
        </message>
        <message>
            <source>%1 differs from %2, and the model has one for both</source>
            <translation>%1 与 %2 不同，而模型中两者为同一个</translation>
        </message>
        <message>
            <source>the file %1 is not of the checkpoint</source>
            <translation>文件 %1 不属于该检查点</translation>
        </message>
        <message>
            <source>%1 has two tensors that are %2 of the model</source>
            <translation>%1 中有两个张量都是模型的 %2</translation>
        </message>
        <message>
            <source>%1 has not all parts of %2</source>
            <translation>%1 中没有 %2 的全部部分</translation>
        </message>
        <message>
            <source>the weights in %1 do not have these names</source>
            <translation>%1 中的权重没有这些名称</translation>
        </message>
        <message>
            <source>correct the model or model.init_from.names, or set model.init_from.partial to start from what fits</source>
            <translation>更正模型或 model.init_from.names，或设置 model.init_from.partial 以从相符的部分开始</translation>
        </message>
        <message>
            <source>correct the model, or rename the layers that are to start from random weights</source>
            <translation>更正模型，或给要从随机权重开始的层改名</translation>
        </message>
        <message>
            <source>leave tied out of the model&apos;s last layer, and set its no_bias</source>
            <translation>去掉模型最后一层的 tied，并设置其 no_bias</translation>
        </message>
        <message>
            <source>copy the checkpoint&apos;s files of all nodes into one folder</source>
            <translation>把所有节点上该检查点的文件复制到同一个文件夹中</translation>
        </message>
        <message>
            <source>the model has no names of a GPT-2</source>
            <translation>模型没有 GPT-2 的名称</translation>
        </message>
        <message>
            <source>its last layer, %1, has a bias or an activation</source>
            <translation>其最后一层 %1 有偏置或激活函数</translation>
        </message>
        <message>
            <source>its layer %1 is not one of a GPT-2, or not in its place: a GPT-2 is an embedding, transformers, a layer_norm and a dense layer without bias</source>
            <translation>其层 %1 不是 GPT-2 的层，或不在应有的位置：GPT-2 由一个 embedding、若干 transformer、一个 layer_norm 和一个无偏置的 dense 层组成</translation>
        </message>
        <message>
            <source>its layer %1 is not causal</source>
            <translation>其层 %1 不是因果的</translation>
        </message>
        <message>
            <source>rank %1 has</source>
            <translation>rank %1</translation>
        </message>
        <message>
            <source>ranks %1 have</source>
            <translation>rank %1</translation>
        </message>
        <message>
            <source>%1; %2 ended</source>
            <translation>%1；%2 已结束</translation>
        </message>
        <message>
            <source>run programs of a person&apos;s own</source>
            <translation>运行用户自己的程序</translation>
        </message>
        <message>
            <source>the program reports too many values</source>
            <translation>程序报告的数值过多</translation>
        </message>
        <message>
            <source>more than %1 a second are left out</source>
            <translation>超过每秒 %1 个的被舍去</translation>
        </message>
        <message>
            <source>rank %1 is</source>
            <translation>rank %1 位于</translation>
        </message>
        <message>
            <source>ranks %1 are</source>
            <translation>rank %1 均位于</translation>
        </message>
        <message>
            <source>in %1</source>
            <translation>%1</translation>
        </message>
        <message>
            <source>in %1, %2</source>
            <translation>%1，%2</translation>
        </message>
        <message>
            <source>in %1, called by %2, %3</source>
            <translation>%1，由 %2 调用，%3</translation>
        </message>
        <message>
            <source>%1, after %2</source>
            <translation>%1，在 %2 之后</translation>
        </message>
        <message>
            <source>%1; NCCL&apos;s RAS tells: %2</source>
            <translation>%1；NCCL 的 RAS 报告：%2</translation>
        </message>
        <message>
            <source>%1, with %2 started</source>
            <translation>%1，%2 已开始</translation>
        </message>
        <message>
            <source>%1, with %2 scheduled</source>
            <translation>%1，%2 已提交</translation>
        </message>
        <message>
            <source>rank %1 is one collective behind</source>
            <translation>rank %1 落后一次集合通信</translation>
        </message>
        <message>
            <source>rank %1 is %2 collectives behind</source>
            <translation>rank %1 落后 %2 次集合通信</translation>
        </message>
        <message>
            <source>ranks %1 are one collective behind</source>
            <translation>rank %1 均落后一次集合通信</translation>
        </message>
        <message>
            <source>ranks %1 are %2 collectives behind</source>
            <translation>rank %1 均落后 %2 次集合通信</translation>
        </message>
        <message>
            <source>at a place that is not known</source>
            <translation>未知位置</translation>
        </message>
        <message>
            <source>the program stands still: no rank has printed anything for %1 s</source>
            <translation>程序停滞：所有 rank 已有 %1 秒没有任何输出</translation>
        </message>
        <message>
            <source>see the stacks of all ranks in the run&apos;s log</source>
            <translation>所有 rank 的调用栈见运行日志</translation>
        </message>
        <message>
            <source>its program writes its own</source>
            <translation>其程序自行写检查点</translation>
        </message>
        <message>
            <source>the program&apos;s code is not on the node</source>
            <translation>节点上没有该程序的代码</translation>
        </message>
        <message>
            <source>launch again, which copies it</source>
            <translation>重新启动，代码会被复制过去</translation>
        </message>
        <message>
            <source>the program exited with code %1</source>
            <translation>程序以退出码 %1 结束</translation>
        </message>
        <message>
            <source>the program %1</source>
            <translation>程序%1</translation>
        </message>
        <message>
            <source>the code has a file %1 that cannot be written</source>
            <translation>代码中的文件 %1 无法写入</translation>
        </message>
        <message>
            <source>%1 is not the files of a program</source>
            <translation>%1 不是程序文件的打包</translation>
        </message>
        <message>
            <source>%1 exists already</source>
            <translation>%1 已存在</translation>
        </message>
        <message>
            <source>there is no free TCP port</source>
            <translation>没有空闲的 TCP 端口</translation>
        </message>
        <message>
            <source>no record begins at byte %1</source>
            <translation>第 %1 字节处不是记录的开头</translation>
        </message>
        <message>
            <source>the record at byte %1 has a wrong checksum</source>
            <translation>第 %1 字节处的记录校验和不符</translation>
        </message>
        <message>
            <source>the record at byte %1 is not an event</source>
            <translation>第 %1 字节处的记录不是事件</translation>
        </message>
        <message>
            <source>cannot start the program in the folder %1</source>
            <translation>无法在文件夹 %1 中启动程序</translation>
        </message>
        <message>
            <source>name its interpreter: [python3, %1]</source>
            <translation>写明它的解释器：[python3, %1]</translation>
        </message>
        <message>
            <source>name one that is: [python3, %1]</source>
            <translation>写明节点上有的解释器：[python3, %1]</translation>
        </message>
        <message>
            <source>make it executable, or name its interpreter: [python3, %1]</source>
            <translation>使其可执行，或写明它的解释器：[python3, %1]</translation>
        </message>
        <message>
            <source>there is no program %1 on this node</source>
            <translation>此节点上没有程序 %1</translation>
        </message>
        <message>
            <source>it was looked for in %1</source>
            <translation>查找位置：%1</translation>
        </message>
        <message>
            <source>there is no Python in %1 on this node</source>
            <translation>此节点的 %1 中没有 Python</translation>
        </message>
        <message>
            <source>the folder does not exist</source>
            <translation>该文件夹不存在</translation>
        </message>
        <message>
            <source>it is a file; expected the folder that has the interpreter</source>
            <translation>它是文件；应为解释器所在的文件夹</translation>
        </message>
        <message>
            <source>%1 is a link to %2, which does not exist</source>
            <translation>%1 是指向 %2 的链接，而后者不存在</translation>
        </message>
        <message>
            <source>%1 is not executable</source>
            <translation>%1 不可执行</translation>
        </message>
        <message>
            <source>there is no project in %1 on this node</source>
            <translation>此节点的 %1 中没有项目</translation>
        </message>
        <message>
            <source>there is no image %1 on this node</source>
            <translation>此节点上没有镜像 %1</translation>
        </message>
        <message>
            <source>the file does not exist</source>
            <translation>该文件不存在</translation>
        </message>
        <message>
            <source>create it on the node, or name one that all nodes have and that this user may read</source>
            <translation>在该节点上创建它，或指定一个所有节点都有且此用户可读的</translation>
        </message>
        <message>
            <source>the path is relative to the node&apos;s copy of the code, which lacks what git ignores: make it there with workload.setup, or give the absolute path of one that all nodes have</source>
            <translation>该路径相对于节点上的代码副本，其中没有 git 忽略的文件：用 workload.setup 在那里创建，或给出所有节点都有的一个的绝对路径</translation>
        </message>
        <message>
            <source>it is neither a program of this machine nor a script whose first line names its interpreter</source>
            <translation>它既不是本机的程序，也不是首行写明解释器的脚本</translation>
        </message>
        <message>
            <source>the interpreter that it names, in its first line where it is a script, is not on this node</source>
            <translation>它（若为脚本则在首行）指定的解释器不在此节点上</translation>
        </message>
        <message>
            <source>install it in this Python on the node, or name another with workload.python</source>
            <translation>请在节点的这个 Python 中安装它，或用 workload.python 指定另一个</translation>
        </message>
        <message>
            <source>install it there, give its whole path, or set workload.python</source>
            <translation>在该节点上安装它、给出完整路径，或设置 workload.python</translation>
        </message>
        <message>
            <source>cannot make the pipe %1</source>
            <translation>无法创建管道 %1</translation>
        </message>
        <message>
            <source>cannot open the pipe %1</source>
            <translation>无法打开管道 %1</translation>
        </message>
        <message>
            <source>collecting the code was cancelled</source>
            <translation>收集代码已取消</translation>
        </message>
        <message>
            <source>git did not end within %1 minutes in %2</source>
            <translation>git 在 %2 中 %1 分钟内未结束</translation>
        </message>
        <message>
            <source>the program git is not installed</source>
            <translation>未安装程序 git</translation>
        </message>
        <message>
            <source>%1 has too many files to be code</source>
            <translation>%1 的文件过多，不像是代码</translation>
        </message>
        <message>
            <source>git cannot list the files of %1</source>
            <translation>git 无法列出 %1 的文件</translation>
        </message>
        <message>
            <source>%1 is neither a file nor a link</source>
            <translation>%1 既不是文件也不是链接</translation>
        </message>
        <message>
            <source>the link %1 leaves the folder of the code</source>
            <translation>链接 %1 指向代码文件夹之外</translation>
        </message>
        <message>
            <source>it leads to %1</source>
            <translation>它指向 %1</translation>
        </message>
        <message>
            <source>the code in %1 is too large</source>
            <translation>%1 中的代码过大</translation>
        </message>
        <message>
            <source>it has %1, and %2 are allowed; the largest: %3</source>
            <translation>共 %1，允许 %2；最大的是：%3</translation>
        </message>
        <message>
            <source>list what the program does not need in .gitignore or %1 (workload.code.exclude), or raise workload.code.max_bytes</source>
            <translation>把程序不需要的文件列入 .gitignore 或 %1（workload.code.exclude），或调高 workload.code.max_bytes</translation>
        </message>
        <message>
            <source>install git on this machine, or set workload.code.disabled</source>
            <translation>在本机安装 git，或设置 workload.code.disabled</translation>
        </message>
        <message>
            <source>leave data out with .gitignore or workload.code.exclude</source>
            <translation>用 .gitignore 或 workload.code.exclude 排除数据</translation>
        </message>
        <message>
            <source>list it in .gitignore or in the file of workload.code.exclude; what it leads to must be on the nodes</source>
            <translation>把它列入 .gitignore 或 workload.code.exclude 的文件；它所指向的内容必须在节点上</translation>
        </message>
        <message>
            <source>node %1 has no ranks: a program evaluates by itself</source>
            <translation>节点 %1 没有 rank：程序自行评估</translation>
        </message>
        <message>
            <source>its program writes its own checkpoints</source>
            <translation>其程序自行写检查点</translation>
        </message>
        <message>
            <source>launch it again; the program may continue from what it saved elsewhere</source>
            <translation>重新启动它；程序可从它保存在别处的内容继续</translation>
        </message>
        <message>
            <source>write --set %1[KEY]=VALUE</source>
            <translation>请写 --set %1[键]=值</translation>
        </message>
        <message>
            <source>%1 runs a program of its own</source>
            <translation>%1 运行的是自己的程序</translation>
        </message>
        <message>
            <source>what it computes and exchanges is not known, so it has no plan</source>
            <translation>它的计算与通信未知，因此没有计划</translation>
        </message>
        <message>
            <source>lockstep run, or name a run with a model</source>
            <translation>使用 lockstep run，或指定带模型的运行</translation>
        </message>
        <message>
            <source>%1 is not used with workload, whose program does this itself; expected it left out</source>
            <translation>%1 不与 workload 同用，其程序自行处理；应不写</translation>
        </message>
        <message>
            <source>%1 and %2 are both given; expected one of them</source>
            <translation>%1 与 %2 同时给出；应只写其一</translation>
        </message>
        <message>
            <source>hooks has none beside others; expected one of them left out</source>
            <translation>hooks 中 none 与其他值并存；应去掉其一</translation>
        </message>
        <message>
            <source>workload.python.kind is %1, and its folder is missing; expected workload.python.path</source>
            <translation>workload.python.kind 为 %1，但缺少其文件夹；应写 workload.python.path</translation>
        </message>
        <message>
            <source>workload.ranks_per_node is %1, but launcher single starts one process; expected it left out</source>
            <translation>workload.ranks_per_node 为 %1，但 launcher single 只启动一个进程；应不写</translation>
        </message>
        <message>
            <source>"%1" is not an address to listen on</source>
            <translation>“%1”不是可监听的地址</translation>
        </message>
        <message>
            <source>an address is a port, or a numeric address and a port: 127.0.0.1:9464, [::1]:9464</source>
            <translation>地址为端口，或数字地址加端口：127.0.0.1:9464、[::1]:9464</translation>
        </message>
        <message>
            <source>not a regular expression: %1</source>
            <translation>不是正则表达式：%1</translation>
        </message>
        <message>
            <source>no group has a name; expected one as in loss=(?P&lt;loss&gt;[0-9.]+)</source>
            <translation>没有命名分组；应如 loss=(?P&lt;loss&gt;[0-9.]+)</translation>
        </message>
        <message>
            <source>command is missing; expected a program and its arguments, as [python3, train.py]</source>
            <translation>缺少 command；应为程序及其参数，如 [python3, train.py]</translation>
        </message>
        <message>
            <source>&quot;%1&quot; is not the name of an environment variable</source>
            <translation>“%1”不是环境变量的名称</translation>
        </message>
        <message>
            <source>no strategy that is searched has what is pinned</source>
            <translation>所搜索的策略中没有符合所固定选项的</translation>
        </message>
        <message>
            <source>%1 cannot be pinned at %2: a number from 1 is expected</source>
            <translation>%1 不能固定为 %2：应为不小于 1 的数</translation>
        </message>
        <message>
            <source>strategy %1 is not searched</source>
            <translation>策略 %1 不在搜索之列</translation>
        </message>
        <message>
            <source>what is searched: %1, %2, %3</source>
            <translation>搜索的策略：%1, %2, %3</translation>
        </message>
        <message>
            <source>it computes %1 % of the step; exchanges take %2 %</source>
            <translation>一步中 %1 % 的时间在计算；交换占 %2 %</translation>
        </message>
        <message>
            <source>it computes %1 % of the step; ranks wait %2 %</source>
            <translation>一步中 %1 % 的时间在计算；各 rank 等待 %2 %</translation>
        </message>
        <message>
            <source>it computes %1 % of the step</source>
            <translation>一步中 %1 % 的时间在计算</translation>
        </message>
        <message>
            <source>the strategy cannot have %1 as the spec sets it</source>
            <translation>该策略不能保持规格中设置的 %1</translation>
        </message>
        <message>
            <source>1 rank</source>
            <translation>1 个 rank</translation>
        </message>
        <message>
            <source>auto chose %1 with %2: %3 per step predicted (%4)</source>
            <translation>auto 选择了 %1，%2：预测每步 %3（%4）</translation>
        </message>
        <message>
            <source>%1; next best: %2, %3 (%4)</source>
            <translation>%1；其次：%2，%3（%4）</translation>
        </message>
        <message>
            <source>%1, tensor %2</source>
            <translation>%1，张量并行 %2</translation>
        </message>
        <message>
            <source>%1, stages %2 %3</source>
            <translation>%1，%2 个阶段（%3）</translation>
        </message>
        <message>
            <source>%1, servers %2</source>
            <translation>%1，%2 个服务器</translation>
        </message>
        <message>
            <source>%1, micro-batches %2</source>
            <translation>%1，%2 个微批次</translation>
        </message>
        <message>
            <source>%1, recompute %2</source>
            <translation>%1，重计算 %2</translation>
        </message>
        <message>
            <source>%1, overlap %2</source>
            <translation>%1，重叠 %2</translation>
        </message>
        <message>
            <source>%1, buckets %2</source>
            <translation>%1，桶 %2</translation>
        </message>
        <message>
            <source>%1, shares by speed</source>
            <translation>%1，按速度分配批次</translation>
        </message>
        <message>
            <source>%1; the time for the search was up: a new search may choose another</source>
            <translation>%1；搜索时间已用完，再次搜索可能选择其他策略</translation>
        </message>
        <message>
            <source>share %1 of %2 is %3 samples, and batch norm takes statistics over %4, which one rank has; expected a multiple of %5</source>
            <translation>第 %1 份（共 %2 份）为 %3 个样本，而批归一化对同一 rank 的 %4 个样本统计；应为 %5 的倍数</translation>
        </message>
        <message>
            <source>an evaluation is of %1 samples, and a share would have none of them</source>
            <translation>一次评估有 %1 个样本，其中一份将分不到样本</translation>
        </message>
        <message>
            <source>strategy.kind is auto: the strategy is chosen for the cluster of a launch</source>
            <translation>strategy.kind 为 auto：策略在启动时按集群选择</translation>
        </message>
        <message>
            <source>strategy.kind auto divides the layers by their cost; expected strategy.pins left out, or kind placement</source>
            <translation>strategy.kind auto 按代价划分各层；应省略 strategy.pins，或使用 kind placement</translation>
        </message>
        <message>
            <source>strategy.local_steps is %1, but strategy.kind auto does not try local-sgd, which changes results; expected it left out, or kind local-sgd</source>
            <translation>strategy.local_steps 为 %1，但 strategy.kind auto 不尝试会改变结果的 local-sgd；应省略，或使用 kind local-sgd</translation>
        </message>
        <message>
            <source>as fast, in less memory</source>
            <translation>同样快，所需内存更少</translation>
        </message>
        <message>
            <source>as fast</source>
            <translation>同样快</translation>
        </message>
        <message>
            <source>ranks compute %1 ms longer a step</source>
            <translation>每步各 rank 多计算 %1 ms</translation>
        </message>
        <message>
            <source>ranks wait %1 ms longer a step</source>
            <translation>每步各 rank 多等待 %1 ms</translation>
        </message>
        <message>
            <source>exchanges take %1 ms longer a step</source>
            <translation>每步交换多用 %1 ms</translation>
        </message>
        <message>
            <source>the search was cancelled</source>
            <translation>搜索已取消</translation>
        </message>
        <message>
            <source>%1 cannot be pinned: it is not searched</source>
            <translation>%1 不能固定：它不在搜索之列</translation>
        </message>
        <message>
            <source>what is searched: %1</source>
            <translation>搜索的选项：%1</translation>
        </message>
        <message>
            <source>no connection to %1 port %2 for a measurement</source>
            <translation>无法连接到 %1 的端口 %2 进行测量</translation>
        </message>
        <message>
            <source>the measurement was cancelled</source>
            <translation>测量已取消</translation>
        </message>
        <message>
            <source>the link is too slow to be measured in time</source>
            <translation>链路太慢，无法在限时内完成测量</translation>
        </message>
        <message>
            <source>allow TCP connections between the nodes</source>
            <translation>允许节点之间的 TCP 连接</translation>
        </message>
        <message>
            <source>the node could not be measured</source>
            <translation>无法测量该节点</translation>
        </message>
        <message>
            <source>the node cannot listen for measurements</source>
            <translation>该节点无法监听测量连接</translation>
        </message>
        <message>
            <source>the link to %1 could not be measured</source>
            <translation>无法测量到 %1 的链路</translation>
        </message>
        <message>
            <source>node %1 computes %2 GFLOP/s, usually %3</source>
            <translation>节点 %1 的计算速度为 %2 GFLOP/s，通常为 %3</translation>
        </message>
        <message>
            <source>node %1 reads %2 MB/s from memory, usually %3</source>
            <translation>节点 %1 的内存读取速度为 %2 MB/s，通常为 %3</translation>
        </message>
        <message>
            <source>node %1 has %2 MB of free disk</source>
            <translation>节点 %1 的可用磁盘空间为 %2 MB</translation>
        </message>
        <message>
            <source>the clock of node %1 is off by %2 s</source>
            <translation>节点 %1 的时钟偏差 %2 秒</translation>
        </message>
        <message>
            <source>GPU %1 of node %2 computes %3 TFLOP/s, usually %4</source>
            <translation>GPU %1（节点 %2）的计算速度为 %3 TFLOP/s，通常为 %4</translation>
        </message>
        <message>
            <source>GPU %1 of node %2 reads %3 MB/s from its memory, usually %4</source>
            <translation>GPU %1（节点 %2）读取显存的速度为 %3 MB/s，通常为 %4</translation>
        </message>
        <message>
            <source>GPU %1 of node %2 uses %3 % of its PCIe lanes</source>
            <translation>GPU %1（节点 %2）只用到 %3 % 的 PCIe 通道</translation>
        </message>
        <message>
            <source>all-reduce over all nodes has a bus bandwidth of %1 MB/s, usually %2</source>
            <translation>所有节点之间的 all-reduce 总线带宽为 %1 MB/s，通常为 %2</translation>
        </message>
        <message>
            <source>all-reduce could not be measured</source>
            <translation>无法测量 all-reduce</translation>
        </message>
        <message>
            <source>"%1" is not an id</source>
            <translation>“%1”不是有效的 id</translation>
        </message>
        <message>
            <source>there is no rank %1 of %2</source>
            <translation>没有 rank %1（共 %2 个）</translation>
        </message>
        <message>
            <source>measure GPUs and collectives between nodes</source>
            <translation>测量 GPU 和节点之间的集合通信</translation>
        </message>
        <message>
            <source>link %1 → %2 sends %3 MB/s, usually %4</source>
            <translation>链路 %1 → %2 的发送速度为 %3 MB/s，通常为 %4</translation>
        </message>
        <message>
            <source>link %1 → %2 has a round trip of %3 ms, usually %4</source>
            <translation>链路 %1 → %2 的往返时间为 %3 ms，通常为 %4</translation>
        </message>
        <message>
            <source>node %1 has agent %2, unlike the %3 of %4</source>
            <translation>节点 %1 的代理为 %2，与 %4 的 %3 不同</translation>
        </message>
        <message>
            <source>node %1 has kernel %2, unlike the %3 of %4</source>
            <translation>节点 %1 的内核为 %2，与 %4 的 %3 不同</translation>
        </message>
        <message>
            <source>node %1 has GPU driver %2, unlike the %3 of %4</source>
            <translation>节点 %1 的 GPU 驱动程序为 %2，与 %4 的 %3 不同</translation>
        </message>
        <message>
            <source>the GPU driver of node %1 runs CUDA %2, unlike the %3 of %4</source>
            <translation>节点 %1 的 GPU 驱动程序支持 CUDA %2，与 %4 的 %3 不同</translation>
        </message>
        <message>
            <source>node %1 has NCCL %2, unlike the %3 of %4</source>
            <translation>节点 %1 的 NCCL 为 %2，与 %4 的 %3 不同</translation>
        </message>
        <message>
            <source>remove it: later results are then compared with new ones</source>
            <translation>请删除它：以后的结果将与新结果比较</translation>
        </message>
        <message>
            <source>strategy %1 cannot divide layers: strategy.%2 is %3</source>
            <translation>策略 %1 不能切分层：strategy.%2 为 %3</translation>
        </message>
        <message>
            <source>%1 is %2 of %3; expected at least 1/%4 of all</source>
            <translation>%1 为 %2，总和为 %3；应至少为总和的 1/%4</translation>
        </message>
        <message>
            <source>the warm-up of %1 steps does not end before training.max_steps, %2</source>
            <translation>%1 步的预热在 training.max_steps（%2）之前不会结束</translation>
        </message>
        <message>
            <source>the run that kept its checkpoints there was removed or made none, or a volume is not mounted</source>
            <translation>在该处保存检查点的运行已被删除或未保存过检查点，或者有卷未挂载</translation>
        </message>
        <message>
            <source>there is no folder %1</source>
            <translation>没有文件夹 %1</translation>
        </message>
        <message>
            <source>run %1 starts from its checkpoint</source>
            <translation>运行 %1 从它的检查点开始</translation>
        </message>
        <message>
            <source>the run cannot be removed</source>
            <translation>无法删除该运行</translation>
        </message>
        <message>
            <source>%1 is a symbolic link</source>
            <translation>%1 是符号链接</translation>
        </message>
        <message>
            <source>wait for the end of that run</source>
            <translation>请等待该运行结束</translation>
        </message>
        <message>
            <source>remove the link on the node</source>
            <translation>请在节点上删除该链接</translation>
        </message>
        <message>
            <source>%1 is on another file system</source>
            <translation>%1 位于另一个文件系统</translation>
        </message>
        <message>
            <source>%1 is nested too deeply</source>
            <translation>%1 的嵌套层次过深</translation>
        </message>
        <message>
            <source>cannot read %1: %2</source>
            <translation>无法读取 %1：%2</translation>
        </message>
        <message>
            <source>it cannot be read: %1</source>
            <translation>无法读取：%1</translation>
        </message>
        <message>
            <source>run %1 uses it</source>
            <translation>运行 %1 正在使用它</translation>
        </message>
        <message>
            <source>cannot remove %1</source>
            <translation>无法删除 %1</translation>
        </message>
        <message>
            <source>the history lacks its end or model: run lockstep attach %1 first</source>
            <translation>历史中缺少它的结束记录或模型：请先运行 lockstep attach %1</translation>
        </message>
        <message>
            <source>files of its program are not here: run lockstep artifacts %1 first</source>
            <translation>其程序的文件不在此处：请先运行 lockstep artifacts %1</translation>
        </message>
        <message>
            <source>the node does not list what it keeps</source>
            <translation>节点没有列出它保存的内容</translation>
        </message>
        <message>
            <source>the node does not remove what is old</source>
            <translation>节点没有删除旧的内容</translation>
        </message>
        <message>
            <source>it could not be removed yet; the next connection tries again</source>
            <translation>暂时无法删除；下次连接时会重试</translation>
        </message>
        <message>
            <source>the run is under way on another node</source>
            <translation>该运行正在另一个节点上进行</translation>
        </message>
        <message>
            <source>it was not reached</source>
            <translation>尚未处理到它</translation>
        </message>
        <message>
            <source>the run&apos;s folder %1 was removed while it ran</source>
            <translation>运行文件夹 %1 在运行期间被删除</translation>
        </message>
        <message>
            <source>what was recorded until then stays in the history; `lockstep rerun` launches it again</source>
            <translation>此前的记录保留在历史中；`lockstep rerun` 可重新启动它</translation>
        </message>
        <message>
            <source>the host key of %1 is not known</source>
            <translation>%1 的主机密钥未知</translation>
        </message>
        <message>
            <source>the host key of %1 has changed</source>
            <translation>%1 的主机密钥已改变</translation>
        </message>
        <message>
            <source>the host key of %1 is revoked</source>
            <translation>%1 的主机密钥已被吊销</translation>
        </message>
        <message>
            <source>the name %1 is not found</source>
            <translation>找不到名称 %1</translation>
        </message>
        <message>
            <source>%1 has no address</source>
            <translation>%1 没有地址</translation>
        </message>
        <message>
            <source>cannot connect to %1 port %2</source>
            <translation>无法连接 %1 端口 %2</translation>
        </message>
        <message>
            <source>%1 port %2 does not answer</source>
            <translation>%1 端口 %2 没有应答</translation>
        </message>
        <message>
            <source>%1 answers, but not as an SSH server in time</source>
            <translation>%1 有应答，但没有及时表现为 SSH 服务器</translation>
        </message>
        <message>
            <source>%1 does not answer during authentication</source>
            <translation>%1 在认证时没有应答</translation>
        </message>
        <message>
            <source>%1 went away during authentication</source>
            <translation>%1 在认证时断开</translation>
        </message>
        <message>
            <source>%1 is absent</source>
            <translation>%1 不存在</translation>
        </message>
        <message>
            <source>%1 is not a user certificate</source>
            <translation>%1 不是用户证书</translation>
        </message>
        <message>
            <source>the certificate expired on %1</source>
            <translation>证书已于 %1 过期</translation>
        </message>
        <message>
            <source>the certificate is not valid before %1</source>
            <translation>证书在 %1 之前无效</translation>
        </message>
        <message>
            <source>the certificate, for %1, was not accepted</source>
            <translation>颁发给 %1 的证书未被接受</translation>
        </message>
        <message>
            <source>the certificate was not accepted</source>
            <translation>证书未被接受</translation>
        </message>
        <message>
            <source>the SSH configuration of %1 allows no host key that is supported</source>
            <translation>%1 的 SSH 配置不允许任何受支持的主机密钥</translation>
        </message>
        <message>
            <source>its HostKeyAlgorithms are %1</source>
            <translation>其 HostKeyAlgorithms 为 %1</translation>
        </message>
        <message>
            <source>allow plain host keys too: %1</source>
            <translation>请同时允许普通主机密钥：%1</translation>
        </message>
        <message>
            <source>%1 shows only a host certificate</source>
            <translation>%1 只出示主机证书</translation>
        </message>
        <message>
            <source>host certificates are not supported, and it offers %1</source>
            <translation>不支持主机证书，而它提供 %1</translation>
        </message>
        <message>
            <source>host certificates are not supported</source>
            <translation>不支持主机证书</translation>
        </message>
        <message>
            <source>%1; the certificate authority in %2 does not help: %3</source>
            <translation>%1；%2 中的证书颁发机构不起作用：%3</translation>
        </message>
        <message>
            <source>ask the host's administrator to allow its plain keys too: HostKeyAlgorithms of its sshd</source>
            <translation>请主机管理员同时允许普通密钥：其 sshd 的 HostKeyAlgorithms</translation>
        </message>
        <message>
            <source>there is no Kerberos library</source>
            <translation>没有 Kerberos 库</translation>
        </message>
        <message>
            <source>Kerberos does not answer within %1 ms</source>
            <translation>Kerberos 在 %1 毫秒内没有应答</translation>
        </message>
        <message>
            <source>there is no Kerberos ticket for %1</source>
            <translation>没有用于 %1 的 Kerberos 票据</translation>
        </message>
        <message>
            <source>get one: kinit</source>
            <translation>请获取票据：kinit</translation>
        </message>
        <message>
            <source>the agent's certificate (%1)</source>
            <translation>代理中的证书（%1）</translation>
        </message>
        <message>
            <source>%1 (cannot be read as a certificate)</source>
            <translation>%1（无法作为证书读取）</translation>
        </message>
        <message>
            <source>%1 (a certificate for a key that is not here)</source>
            <translation>%1（其对应的密钥不在此处）</translation>
        </message>
        <message>
            <source>its ProxyCommand says: %1</source>
            <translation>其 ProxyCommand 报告：%1</translation>
        </message>
        <message>
            <source>its ProxyCommand ended with status %1</source>
            <translation>其 ProxyCommand 已结束，状态为 %1</translation>
        </message>
        <message>
            <source>its ProxyCommand was ended by signal %1</source>
            <translation>其 ProxyCommand 被信号 %1 终止</translation>
        </message>
        <message>
            <source>gssapi-with-mic (%1)</source>
            <translation>gssapi-with-mic（%1）</translation>
        </message>
        <message>
            <source>connect again: the server's question is asked then</source>
            <translation>请重新连接：届时会询问服务器的问题</translation>
        </message>
        <message>
            <source>the ProxyCommand of %1 has an unknown token: %2</source>
            <translation>%1 的 ProxyCommand 含有未知的占位符：%2</translation>
        </message>
        <message>
            <source>%1 is reached with ProxyUseFdpass</source>
            <translation>%1 通过 ProxyUseFdpass 连接</translation>
        </message>
        <message>
            <source>ProxyUseFdpass is not supported</source>
            <translation>不支持 ProxyUseFdpass</translation>
        </message>
        <message>
            <source>let its ProxyCommand pass on the bytes, as nc does without -F, or use ProxyJump</source>
            <translation>请让 ProxyCommand 转发数据（如不带 -F 的 nc），或使用 ProxyJump</translation>
        </message>
        <message>
            <source>the ProxyCommand of %1 does not reach it in time</source>
            <translation>%1 的 ProxyCommand 未能及时连通</translation>
        </message>
        <message>
            <source>the ProxyCommand of %1 does not reach it</source>
            <translation>%1 的 ProxyCommand 无法连通</translation>
        </message>
        <message>
            <source>correct ProxyCommand in the SSH configuration; in a terminal: ssh %1</source>
            <translation>请更正 SSH 配置中的 ProxyCommand；可在终端中试：ssh %1</translation>
        </message>
        <message>
            <source>'%1' is no way to start an agent; expected detached, systemd or auto</source>
            <translation>“%1”不是启动代理的方式；应为 detached、systemd 或 auto</translation>
        </message>
        <message>
            <source>the agent cannot start as a systemd user unit</source>
            <translation>代理无法作为 systemd 用户单元启动</translation>
        </message>
        <message>
            <source>%1 does not linger: its units end at the last logout</source>
            <translation>%1 未启用 linger：其单元会在最后一次注销时结束</translation>
        </message>
        <message>
            <source>on the node: loginctl enable-linger %1; or deploy with --start detached</source>
            <translation>请在节点上运行：loginctl enable-linger %1；或用 --start detached 部署</translation>
        </message>
        <message>
            <source>no user manager answers: %1</source>
            <translation>没有用户管理器应答：%1</translation>
        </message>
        <message>
            <source>on the node: loginctl enable-linger, which starts the user manager; or deploy with --start detached</source>
            <translation>请在节点上运行 loginctl enable-linger，它会启动用户管理器；或用 --start detached 部署</translation>
        </message>
        <message>
            <source>see journalctl --user on the node; or deploy with --start detached</source>
            <translation>请在节点上查看 journalctl --user；或用 --start detached 部署</translation>
        </message>
        <message>
            <source>%1 cannot be reached from jump host %2</source>
            <translation>从跳板机 %2 无法到达 %1</translation>
        </message>
        <message>
            <source>the SSH configuration of %1 cannot be read</source>
            <translation>无法读取 %1 的 SSH 配置</translation>
        </message>
        <message>
            <source>the jump hosts of %1 lead in a circle</source>
            <translation>%1 的跳板机形成了环</translation>
        </message>
        <message>
            <source>connecting to %1 was cancelled</source>
            <translation>已取消连接 %1</translation>
        </message>
        <message>
            <source>connecting was cancelled</source>
            <translation>已取消连接</translation>
        </message>
        <message>
            <source>the connection to %1 was lost</source>
            <translation>与 %1 的连接已断开</translation>
        </message>
        <message>
            <source>the connection to %1 does not respond</source>
            <translation>与 %1 的连接已失效</translation>
        </message>
        <message>
            <source>the connection to the agent was lost</source>
            <translation>与代理的连接已断开</translation>
        </message>
        <message>
            <source>the server does not open a channel to %1</source>
            <translation>服务器没有打开到 %1 的通道</translation>
        </message>
        <message>
            <source>raise MaxSessions of that server's sshd, or end what else uses the connection</source>
            <translation>请调大该服务器 sshd 的 MaxSessions，或结束占用此连接的其他操作</translation>
        </message>
        <message>
            <source>the server refuses %1</source>
            <translation>服务器拒绝 %1</translation>
        </message>
        <message>
            <source>the node is not connected</source>
            <translation>节点未连接</translation>
        </message>
        <message>
            <source>it is not known whether the run does what was asked</source>
            <translation>不清楚运行是否会照要求去做</translation>
        </message>
        <message>
            <source>the run has ended meanwhile</source>
            <translation>运行在此期间已经结束</translation>
        </message>
        <message>
            <source>fewer than half of its nodes have confirmed it within %1 s; if node %2 is lost now, so may be the request</source>
            <translation>在 %1 秒内确认的节点不到一半；如果现在失去节点 %2，该请求也可能丢失</translation>
        </message>
        <message>
            <source>fewer than half of its nodes have confirmed it within %1 s: the others may go on without node %2</source>
            <translation>在 %1 秒内确认的节点不到一半：其他节点可能在没有节点 %2 的情况下继续运行</translation>
        </message>
        <message>
            <source>fewer than half of the run&apos;s nodes would remain</source>
            <translation>剩下的节点将不到该运行的一半</translation>
        </message>
        <message>
            <source>ask again once the run trains without those that it is to exclude already</source>
            <translation>等运行在排除先前请求的节点后继续训练时再请求</translation>
        </message>
        <message>
            <source>waits until half of the nodes have confirmed the run&apos;s end, for %1 s at most</source>
            <translation>等待半数节点确认运行结束，最多 %1 秒</translation>
        </message>
        <message>
            <source>see what the run says, or ask again</source>
            <translation>请查看运行的消息，或再次请求</translation>
        </message>
        <message>
            <source>node %1 is new in the cluster</source>
            <translation>节点 %1 是集群中新加入的</translation>
        </message>
        <message>
            <source>close the cluster and open it again; then launch</source>
            <translation>请关闭集群并重新打开，然后再启动</translation>
        </message>
        <message>
            <source>the node did not answer in time, and it is not known whether it got the request</source>
            <translation>节点没有及时应答，不清楚它是否收到了请求</translation>
        </message>
        <message>
            <source>the agent does not answer</source>
            <translation>代理没有应答</translation>
        </message>
        <message>
            <source>the agent has ended</source>
            <translation>代理已结束</translation>
        </message>
        <message>
            <source>the agent does not start</source>
            <translation>代理无法启动</translation>
        </message>
        <message>
            <source>the agent did not start</source>
            <translation>代理没有启动</translation>
        </message>
        <message>
            <source>the agent cannot run on this node</source>
            <translation>代理无法在此节点运行</translation>
        </message>
        <message>
            <source>the agent is not on this node yet</source>
            <translation>此节点上还没有代理</translation>
        </message>
        <message>
            <source>the agent cannot be copied to %1</source>
            <translation>无法把代理复制到 %1</translation>
        </message>
        <message>
            <source>the node has been silent for %1 s</source>
            <translation>该节点已 %1 秒没有任何消息</translation>
        </message>
        <message>
            <source>hashing %1 on this machine: %2 of %3 MB</source>
            <translation>正在本机计算 %1 的哈希：%3 MB 中的 %2</translation>
        </message>
        <message>
            <source>hashing %1 on %2: %3 of %4 MB</source>
            <translation>正在 %2 上计算 %1 的哈希：%4 MB 中的 %3</translation>
        </message>
        <message>
            <source>decoding %1 on %2: %3 of %4 MB</source>
            <translation>正在 %2 上解码 %1：%4 MB 中的 %3</translation>
        </message>
        <message>
            <source>use the version of Lockstep that launched the run</source>
            <translation>请使用启动该运行的 Lockstep 版本</translation>
        </message>
        <message>
            <source>writing %1 was cancelled</source>
            <translation>写入 %1 已取消</translation>
        </message>
        <message>
            <source>making %1 was cancelled</source>
            <translation>生成 %1 已取消</translation>
        </message>
        <message>
            <source>reading the data was cancelled</source>
            <translation>读取数据已取消</translation>
        </message>
        <message>
            <source>check the data before a run is prepared</source>
            <translation>在准备运行之前检查数据</translation>
        </message>
        <message>
            <source>list and remove what its workdir keeps</source>
            <translation>列出并删除其工作目录中保留的内容</translation>
        </message>
        <message>
            <source>take a checkpoint on request</source>
            <translation>按请求保存检查点</translation>
        </message>
        <message>
            <source>%1 speaks protocol %2, the client protocol %3</source>
            <translation>%1使用协议 %2，客户端使用协议 %3</translation>
        </message>
        <message>
            <source>%1 cannot %2</source>
            <translation>%1不能%2</translation>
        </message>
        <message>
            <source>it is of an older version</source>
            <translation>它是较旧的版本</translation>
        </message>
        <message>
            <source>it is of the older version %1</source>
            <translation>它是较旧的版本 %1</translation>
        </message>
        <message>
            <source>the agent</source>
            <translation>代理</translation>
        </message>
        <message>
            <source>the run's supervisor</source>
            <translation>运行的监管进程</translation>
        </message>
        <message>
            <source>the preparation of a run</source>
            <translation>运行的准备</translation>
        </message>
        <message>
            <source>no process serves it</source>
            <translation>没有进程在为它提供服务</translation>
        </message>
        <message>
            <source>no agent was started</source>
            <translation>没有启动代理</translation>
        </message>
        <message>
            <source>the agent package was not found</source>
            <translation>没有找到代理软件包</translation>
        </message>
        <message>
            <source>there is no agent package in %1</source>
            <translation>%1 中没有代理软件包</translation>
        </message>
        <message>
            <source>%1 arrived damaged</source>
            <translation>%1 传输后已损坏</translation>
        </message>
        <message>
            <source>the SFTP connection ended</source>
            <translation>SFTP 连接已结束</translation>
        </message>
        <message>
            <source>%1 failed on the node</source>
            <translation>在节点上失败：%1</translation>
        </message>
        <message>
            <source>%1 failed</source>
            <translation>失败：%1</translation>
        </message>
        <message>
            <source>looking at the node</source>
            <translation>检查节点</translation>
        </message>
        <message>
            <source>checking what was copied</source>
            <translation>校验已复制的文件</translation>
        </message>
        <message>
            <source>no space on %1 for the agent: %2 bytes needed, %3 free in %4</source>
            <translation>%1 上没有空间放置代理：需要 %2 字节，%4 中剩余 %3 字节</translation>
        </message>
        <message>
            <source>the node</source>
            <translation>该节点</translation>
        </message>
        <message>
            <source>the node could not prepare the run</source>
            <translation>节点未能准备运行</translation>
        </message>
        <message>
            <source>the node no longer has the run it had prepared</source>
            <translation>节点丢失了已准备的运行</translation>
        </message>
        <message>
            <source>the coordinator did not start the run</source>
            <translation>协调节点没有启动运行</translation>
        </message>
        <message>
            <source>the launch was cancelled</source>
            <translation>已取消启动</translation>
        </message>
        <message>
            <source>cannot open the data file %1</source>
            <translation>无法打开数据文件 %1</translation>
        </message>
        <message>
            <source>the data file %1 is not the run&apos;s</source>
            <translation>数据文件 %1 不是所要的文件</translation>
        </message>
        <message>
            <source>data file %1</source>
            <translation>数据文件 %1</translation>
        </message>
        <message>
            <source>no space for the run in %1</source>
            <translation>%1 中没有空间放置此运行</translation>
        </message>
        <message>
            <source>comm &quot;%1&quot; reaches the ranks of one node only</source>
            <translation>通信方式“%1”只能到达同一节点的 rank</translation>
        </message>
        <message>
            <source>the plan is not the one that was announced</source>
            <translation>计划与所声明的不一致</translation>
        </message>
        <message>
            <source>the node has no interface %1 with an address</source>
            <translation>该节点没有带地址的网络接口 %1</translation>
        </message>
        <message>
            <source>the node has no address that other hosts reach</source>
            <translation>该节点没有其他主机能到达的地址</translation>
        </message>
        <message>
            <source>the node cannot be reached at %1</source>
            <translation>无法通过 %1 到达该节点</translation>
        </message>
        <message>
            <source>node %1 cannot reach node %2 at %3</source>
            <translation>节点 %1 无法通过 %3 到达节点 %2</translation>
        </message>
        <message>
            <source>node %1 cannot reach node %2</source>
            <translation>节点 %1 无法到达节点 %2</translation>
        </message>
        <message>
            <source>the data file %1 is not a regular file</source>
            <translation>数据文件 %1 不是普通文件</translation>
        </message>
        <message>
            <source>the clock of node %1 is %2 days ahead of this machine&apos;s, and so are the times of its log</source>
            <translation>节点 %1 的时钟比本机快 %2 天，其日志中的时间也是如此</translation>
        </message>
        <message>
            <source>the clock of node %1 is %2 days behind this machine&apos;s, and so are the times of its log</source>
            <translation>节点 %1 的时钟比本机慢 %2 天，其日志中的时间也是如此</translation>
        </message>
        <message>
            <source>cannot listen for the run&apos;s other nodes at %1</source>
            <translation>无法在 %1 监听运行的其他节点</translation>
        </message>
        <message>
            <source>the run was not committed in time</source>
            <translation>运行没有及时提交</translation>
        </message>
        <message>
            <source>the run did not form in %1 s</source>
            <translation>运行在 %1 秒内没有组成</translation>
        </message>
        <message>
            <source>the run did not stop in time</source>
            <translation>运行没有及时停止</translation>
        </message>
        <message>
            <source>the run was killed</source>
            <translation>运行已被终止</translation>
        </message>
        <message>
            <source>the worker of rank %1 %2</source>
            <translation>rank %1 的工作进程%2</translation>
        </message>
        <message>
            <source>was killed by signal %1 (%2)</source>
            <translation>被信号 %1（%2）终止</translation>
        </message>
        <message>
            <source>was killed by signal %1</source>
            <translation>被信号 %1 终止</translation>
        </message>
        <message>
            <source>exited with code %1</source>
            <translation>以代码 %1 退出</translation>
        </message>
        <message>
            <source>could not be started (exit code 127)</source>
            <translation>无法启动（退出代码 127）</translation>
        </message>
        <message>
            <source>node %1 was lost</source>
            <translation>节点 %1 已失联</translation>
        </message>
        <message>
            <source>node %1 has another plan</source>
            <translation>节点 %1 的计划不同</translation>
        </message>
        <message>
            <source>the run&apos;s supervisor ended unexpectedly</source>
            <translation>运行的监管进程意外结束</translation>
        </message>
        <message>
            <source>the run&apos;s supervisor has gone</source>
            <translation>运行的监管进程已不在</translation>
        </message>
        <message>
            <source>no supervisor on node %1 answers for the run</source>
            <translation>节点 %1 上没有进程代表此运行</translation>
        </message>
        <message>
            <source>there is no run &quot;%1&quot; on this node</source>
            <translation>此节点上没有运行“%1”</translation>
        </message>
        <message>
            <source>there is no run &quot;%1&quot; in the history</source>
            <translation>历史中没有运行“%1”</translation>
        </message>
        <message>
            <source>it is not known on which nodes the run was</source>
            <translation>不知道此运行在哪些节点上</translation>
        </message>
        <message>
            <source>the run could not be stopped</source>
            <translation>无法停止运行</translation>
        </message>
        <message>
            <source>run %1 cannot be given up</source>
            <translation>运行 %1 不能放弃</translation>
        </message>
        <message>
            <source>given up: the node that coordinates the run is out of reach</source>
            <translation>已放弃：协调此运行的节点无法访问</translation>
        </message>
        <message>
            <source>it has ended</source>
            <translation>它已经结束</translation>
        </message>
        <message>
            <source>its nodes can be reached</source>
            <translation>可以访问其节点</translation>
        </message>
        <message>
            <source>end it with `lockstep kill`</source>
            <translation>请用 `lockstep kill` 结束它</translation>
        </message>
        <message>
            <source>`lockstep history delete` removes it</source>
            <translation>`lockstep history delete` 可将其删除</translation>
        </message>
        <message>
            <source>the run could not be asked for a checkpoint</source>
            <translation>无法请求运行保存检查点</translation>
        </message>
        <message>
            <source>node %1 is back and has ranks again</source>
            <translation>节点 %1 已恢复，重新拥有 rank</translation>
        </message>
        <message>
            <source>nodes %1 are back and have ranks again</source>
            <translation>节点 %1 已恢复，重新拥有 rank</translation>
        </message>
        <message>
            <source>the run takes no checkpoints</source>
            <translation>该运行不保存检查点</translation>
        </message>
        <message>
            <source>training.checkpoint.disabled is set</source>
            <translation>已设置 training.checkpoint.disabled</translation>
        </message>
        <message>
            <source>the run could not be killed</source>
            <translation>无法终止运行</translation>
        </message>
        <message>
            <source>cannot ask for the run</source>
            <translation>无法查询运行</translation>
        </message>
        <message>
            <source>cannot fetch the trained model</source>
            <translation>无法取回训练好的模型</translation>
        </message>
        <message>
            <source>the trained model was damaged on its way from %1</source>
            <translation>训练好的模型在从 %1 传回时损坏</translation>
        </message>
        <message>
            <source>cannot measure what the plan costs</source>
            <translation>无法测量计划的开销</translation>
        </message>
        <message>
            <source>run %1 is under way</source>
            <translation>运行 %1 正在进行</translation>
        </message>
        <message>
            <source>run %1 is being recorded</source>
            <translation>运行 %1 正在被记录</translation>
        </message>
        <message>
            <source>another process records this run</source>
            <translation>另一个进程正在记录此运行</translation>
        </message>
        <message>
            <source>%1 was written by a newer Lockstep</source>
            <translation>%1 由更新版本的 Lockstep 写入</translation>
        </message>
        <message>
            <source>communication over Gloo failed</source>
            <translation>Gloo 通信失败</translation>
        </message>
        <message>
            <source>cannot read the %1 %2</source>
            <translation>无法读取%1 %2</translation>
        </message>
        <message>
            <source>cannot read the model &apos;%1&apos; (%2)</source>
            <translation>无法读取模型“%1”（%2）</translation>
        </message>
        <message>
            <source>cannot read %1</source>
            <translation>无法读取 %1</translation>
        </message>
        <message>
            <source>cannot open %1</source>
            <translation>无法打开 %1</translation>
        </message>
        <message>
            <source>cannot write %1</source>
            <translation>无法写入 %1</translation>
        </message>
        <message>
            <source>cannot create %1</source>
            <translation>无法创建 %1</translation>
        </message>
        <message>
            <source>cannot create the folder %1</source>
            <translation>无法创建文件夹 %1</translation>
        </message>
        <message>
            <source>cannot rename to %1</source>
            <translation>无法重命名为 %1</translation>
        </message>
        <message>
            <source>cannot use %1</source>
            <translation>无法使用 %1</translation>
        </message>
        <message>
            <source>cannot lock %1</source>
            <translation>无法锁定 %1</translation>
        </message>
        <message>
            <source>cannot run %1</source>
            <translation>无法运行 %1</translation>
        </message>
        <message>
            <source>there was no response for %1 ms</source>
            <translation>已有 %1 毫秒没有收到任何数据</translation>
        </message>
        <message>
            <source>tried %1; server offers %2</source>
            <translation>已尝试 %1；服务器支持 %2</translation>
        </message>
        <message>
            <source>it shows %1, but %2:%3 names another key; someone may be posing as this host, or it was reinstalled</source>
            <translation>它出示 %1，而 %2:%3 记录的是另一个密钥；可能有人冒充此主机，或者主机重新安装过</translation>
        </message>
        <message>
            <source>%1 is marked @revoked in %2:%3</source>
            <translation>%1 在 %2:%3 中被标为 @revoked</translation>
        </message>
        <message>
            <source>its SHA-256 is %1, expected %2</source>
            <translation>其 SHA-256 为 %1，应为 %2</translation>
        </message>
        <message>
            <source>its SHA-256 is %1, the run expects %2</source>
            <translation>其 SHA-256 为 %1，运行要求 %2</translation>
        </message>
        <message>
            <source>%1 MiB are free, %2 MiB are needed</source>
            <translation>剩余 %1 MiB，需要 %2 MiB</translation>
        </message>
        <message>
            <source>still waiting for node %1</source>
            <translation>仍在等待节点 %1</translation>
        </message>
        <message>
            <source>its supervisor did not come back within %1 s</source>
            <translation>其监管进程在 %1 秒内没有恢复</translation>
        </message>
        <message>
            <source>no connection to it for %1 s: %2</source>
            <translation>与它断开已 %1 秒：%2</translation>
        </message>
        <message>
            <source>it was killed, or the node was restarted</source>
            <translation>它被终止，或节点已重启</translation>
        </message>
        <message>
            <source>the run&apos;s folder there was removed, or the node has another work folder now</source>
            <translation>该节点上的运行文件夹已被删除，或节点现在使用另一个工作文件夹</translation>
        </message>
        <message>
            <source>it is a FIFO</source>
            <translation>它是一个命名管道</translation>
        </message>
        <message>
            <source>it is a socket</source>
            <translation>它是一个套接字</translation>
        </message>
        <message>
            <source>it is a device</source>
            <translation>它是一个设备</translation>
        </message>
        <message>
            <source>its addresses: %1</source>
            <translation>其地址：%1</translation>
        </message>
        <message>
            <source>this host does not have this address</source>
            <translation>此主机没有该地址</translation>
        </message>
        <message>
            <source>%1; its addresses: %2</source>
            <translation>%1；其地址：%2</translation>
        </message>
        <message>
            <source>it is a loopback address, and other nodes are on other hosts</source>
            <translation>它通向节点自身，而其他节点在别的主机上</translation>
        </message>
        <message>
            <source>another program answers there</source>
            <translation>应答的是另一个程序</translation>
        </message>
        <message>
            <source>there is no route to it</source>
            <translation>没有通往它的路由</translation>
        </message>
        <message>
            <source>the connection is refused</source>
            <translation>连接被拒绝</translation>
        </message>
        <message>
            <source>no answer in %1 s</source>
            <translation>%1 秒内没有应答</translation>
        </message>
        <message>
            <source>rank %1 does not answer</source>
            <translation>rank %1 没有应答</translation>
        </message>
        <message>
            <source>rank %1 timed out waiting for this rank</source>
            <translation>rank %1 一直等不到此 rank</translation>
        </message>
        <message>
            <source>the others timed out waiting for this rank</source>
            <translation>其他 rank 一直等不到此 rank</translation>
        </message>
        <message>
            <source>its processor is %1, the bundle is for %2</source>
            <translation>其处理器为 %1，软件包适用于 %2</translation>
        </message>
        <message>
            <source>its glibc is %1, and %2 is needed</source>
            <translation>其 glibc 为 %1，需要 %2</translation>
        </message>
        <message>
            <source>without its entry it could not be found on its nodes again</source>
            <translation>没有这条记录，就再也无法在节点上找到它</translation>
        </message>
        <message>
            <source>searched: %1</source>
            <translation>查找过：%1</translation>
        </message>
        <message>
            <source>this account may not write there</source>
            <translation>此帐户没有写入权限</translation>
        </message>
        <message>
            <source>its log is %1</source>
            <translation>其日志为 %1</translation>
        </message>
        <message>
            <source>No such file or directory</source>
            <translation>没有那个文件或目录</translation>
        </message>
        <message>
            <source>Permission denied</source>
            <translation>权限不够</translation>
        </message>
        <message>
            <source>No space left on device</source>
            <translation>设备上没有空间</translation>
        </message>
        <message>
            <source>Connection refused</source>
            <translation>连接被拒绝</translation>
        </message>
        <message>
            <source>Connection timed out</source>
            <translation>连接超时</translation>
        </message>
        <message>
            <source>Is a directory</source>
            <translation>是一个目录</translation>
        </message>
        <message>
            <source>Not a directory</source>
            <translation>不是目录</translation>
        </message>
        <message>
            <source>Read-only file system</source>
            <translation>只读文件系统</translation>
        </message>
        <message>
            <source>Name or service not known</source>
            <translation>名称或服务未知</translation>
        </message>
        <message>
            <source>Temporary failure in name resolution</source>
            <translation>域名解析暂时失败</translation>
        </message>
        <message>
            <source>put your public key there (ssh-copy-id %1), or name the right IdentityFile</source>
            <translation>把公钥放到那里（ssh-copy-id %1），或指定正确的 IdentityFile</translation>
        </message>
        <message>
            <source>the server cut the attempts short: set IdentitiesOnly and IdentityFile for it</source>
            <translation>服务器限制了尝试次数：为它设置 IdentitiesOnly 和 IdentityFile</translation>
        </message>
        <message>
            <source>ask the host&apos;s administrator for its new key</source>
            <translation>向主机管理员索取新密钥</translation>
        </message>
        <message>
            <source>check the host&apos;s name in the cluster and in the SSH configuration</source>
            <translation>检查集群和 SSH 配置中的主机名</translation>
        </message>
        <message>
            <source>check that the host is up and that no firewall drops the connection</source>
            <translation>检查主机是否开机、防火墙是否丢弃了连接</translation>
        </message>
        <message>
            <source>check that sshd runs there and listens on this port</source>
            <translation>检查那里的 sshd 是否运行并监听此端口</translation>
        </message>
        <message>
            <source>check the network and the address</source>
            <translation>检查网络和地址</translation>
        </message>
        <message>
            <source>check the path</source>
            <translation>检查路径</translation>
        </message>
        <message>
            <source>connect the cluster first</source>
            <translation>先连接集群</translation>
        </message>
        <message>
            <source>correct %1</source>
            <translation>修正 %1</translation>
        </message>
        <message>
            <source>check that sshd has the sftp subsystem</source>
            <translation>确认 sshd 启用了 sftp 子系统</translation>
        </message>
        <message>
            <source>check that the account&apos;s login files print nothing for non-interactive shells</source>
            <translation>确认该账户的登录脚本在非交互 shell 中不输出任何内容</translation>
        </message>
        <message>
            <source>deploy the agent of your version to this node</source>
            <translation>把你的版本的代理部署到此节点</translation>
        </message>
        <message>
            <source>deploy again; if it stays so, make the bundle again and check the node&apos;s disk</source>
            <translation>重新部署；如仍如此，重新制作软件包并检查节点磁盘</translation>
        </message>
        <message>
            <source>build Lockstep again, which makes the package, then connect again</source>
            <translation>重新构建 Lockstep（会生成该软件包），然后再次连接</translation>
        </message>
        <message>
            <source>deploy it: lockstep cluster deploy, or Connect on the cluster&apos;s page</source>
            <translation>请部署：lockstep cluster deploy，或在集群页面点击“连接”</translation>
        </message>
        <message>
            <source>make a bundle for this kind of machine</source>
            <translation>为此类机器制作软件包</translation>
        </message>
        <message>
            <source>use a node with a newer system, or build the bundle on an older one</source>
            <translation>使用系统更新的节点，或在更旧的系统上制作软件包</translation>
        </message>
        <message>
            <source>free space there, or give the node another workdir</source>
            <translation>在那里腾出空间，或给节点指定另一个工作目录</translation>
        </message>
        <message>
            <source>give the node another workdir</source>
            <translation>请为该节点另选工作目录</translation>
        </message>
        <message>
            <source>free space there, or choose another workdir</source>
            <translation>在那里腾出空间，或选择另一个工作目录</translation>
        </message>
        <message>
            <source>free space on the disk of the node&apos;s workdir</source>
            <translation>请在节点工作目录所在的磁盘上腾出空间</translation>
        </message>
        <message>
            <source>free space on the disk of %1, then resume</source>
            <translation>在 %1 所在的磁盘上腾出空间，然后恢复运行</translation>
        </message>
        <message>
            <source>fix what it names on the node, and connect again</source>
            <translation>改正该节点上所指出的问题，然后重新连接</translation>
        </message>
        <message>
            <source>fix it on the node, and connect again</source>
            <translation>在该节点上改正，然后重新连接</translation>
        </message>
        <message>
            <source>check that %1 can be written, then resume</source>
            <translation>检查 %1 是否可写，然后恢复运行</translation>
        </message>
        <message>
            <source>free disk space</source>
            <translation>腾出磁盘空间</translation>
        </message>
        <message>
            <source>fetch the file again</source>
            <translation>重新获取该文件</translation>
        </message>
        <message>
            <source>use comm: gloo for a cluster of several nodes</source>
            <translation>多节点集群请使用 comm: gloo</translation>
        </message>
        <message>
            <source>launch again from one version of the program</source>
            <translation>用同一版本的程序重新启动</translation>
        </message>
        <message>
            <source>launch it again</source>
            <translation>重新启动它</translation>
        </message>
        <message>
            <source>see the run&apos;s log; resume the run from its last checkpoint, or launch it again where it has none</source>
            <translation>查看运行日志；从最后一个检查点续训该运行，没有检查点时重新启动</translation>
        </message>
        <message>
            <source>resume the run from its last checkpoint, or launch it again where it has none</source>
            <translation>从最后一个检查点续训该运行，没有检查点时重新启动</translation>
        </message>
        <message>
            <source>look at that node&apos;s agent, and whether it reaches the first node at its address</source>
            <translation>查看该节点的代理，以及它能否按地址到达第一个节点</translation>
        </message>
        <message>
            <source>allow TCP connections between the nodes, or give node %1 an `address` or `interface` that node %2 reaches</source>
            <translation>请允许节点之间的 TCP 连接，或给节点 %1 一个节点 %2 能到达的 `address` 或 `interface`</translation>
        </message>
        <message>
            <source>correct its `address` in the cluster, or leave it out: one is chosen</source>
            <translation>请更正集群中它的 `address`，或留空由程序选择</translation>
        </message>
        <message>
            <source>write its output to a file, and name that file in the run</source>
            <translation>请把其内容写入文件，并在运行中指定该文件</translation>
        </message>
        <message>
            <source>connect it to the other nodes&apos; network, or give its `address` or `interface` in the cluster</source>
            <translation>请把它连入其他节点所在的网络，或在集群中给出它的 `address` 或 `interface`</translation>
        </message>
        <message>
            <source>check whether the node runs and reaches the first node at its address</source>
            <translation>查看节点是否在运行、能否按地址到达第一个节点</translation>
        </message>
        <message>
            <source>check whether that node runs and is reachable from here at its address</source>
            <translation>查看该节点是否在运行、从这里能否按地址到达</translation>
        </message>
        <message>
            <source>check that the node is up and that its peers reach the address in the cluster file</source>
            <translation>检查节点是否开机、其他节点能否到达集群文件中的地址</translation>
        </message>
        <message>
            <source>stop or kill it first</source>
            <translation>先停止或终止它</translation>
        </message>
        <message>
            <source>stop or kill the run first</source>
            <translation>先停止或终止运行</translation>
        </message>
        <message>
            <source>wait for its end, or stop it first</source>
            <translation>等它结束，或先停止它</translation>
        </message>
        <message>
            <source>use that version, or another --home</source>
            <translation>使用那个版本，或换一个 --home</translation>
        </message>
        <message>
            <source>correct the text first</source>
            <translation>先改正文本</translation>
        </message>
        <message>
            <source>the text cannot be edited as fields</source>
            <translation>文本无法按字段编辑</translation>
        </message>
        <message>
            <source>it is not valid YAML</source>
            <translation>它不是有效的 YAML</translation>
        </message>
        <message>
            <source>unknown field &apos;%1&apos; in %2</source>
            <translation>%2 中有未知字段“%1”</translation>
        </message>
        <message>
            <source>unknown field &apos;%1&apos;</source>
            <translation>未知字段“%1”</translation>
        </message>
        <message>
            <source>&apos;%1&apos; is empty</source>
            <translation>“%1”为空</translation>
        </message>
        <message>
            <source>&apos;%1&apos; is %2</source>
            <translation>“%1”为 %2</translation>
        </message>
        <message>
            <source>not valid YAML (%1)</source>
            <translation>不是有效的 YAML（%1）</translation>
        </message>
        <message>
            <source>a layer without a kind</source>
            <translation>没有种类的层</translation>
        </message>
        <message>
            <source>a layer of two kinds</source>
            <translation>有两个种类的层</translation>
        </message>
        <message>
            <source>version %1 of this format is not known</source>
            <translation>未知的格式版本 %1</translation>
        </message>
        <message>
            <source>did you mean &apos;%1&apos;?</source>
            <translation>是否想写“%1”？</translation>
        </message>
        <message>
            <source>did you mean &apos;%1&apos; outside of %2?</source>
            <translation>是否想在 %2 之外写“%1”？</translation>
        </message>
        <message>
            <source>expected one of %1</source>
            <translation>应为其中之一：%1</translation>
        </message>
        <message>
            <source>expected %1, or a whole number, at least %2</source>
            <translation>应为 %1，或不小于 %2 的整数</translation>
        </message>
        <message>
            <source>expected a whole number, at least %1</source>
            <translation>应为不小于 %1 的整数</translation>
        </message>
        <message>
            <source>expected a whole number, 0 or more</source>
            <translation>应为不小于 0 的整数</translation>
        </message>
        <message>
            <source>expected a whole number</source>
            <translation>应为整数</translation>
        </message>
        <message>
            <source>expected bytes, as 65536 or 256MiB</source>
            <translation>应为字节数，如 65536 或 256MiB</translation>
        </message>
        <message>
            <source>expected a number</source>
            <translation>应为数字</translation>
        </message>
        <message>
            <source>expected true or false</source>
            <translation>应为 true 或 false</translation>
        </message>
        <message>
            <source>expected text</source>
            <translation>应为文本</translation>
        </message>
        <message>
            <source>expected a list (&apos;- …&apos; lines)</source>
            <translation>应为列表（以“- …”开头的行）</translation>
        </message>
        <message>
            <source>expected a list: [a, b]</source>
            <translation>应为列表：[a, b]</translation>
        </message>
        <message>
            <source>expected &apos;path: path&apos; lines</source>
            <translation>应为“路径: 路径”形式的行</translation>
        </message>
        <message>
            <source>expected &apos;name: value&apos; lines with even indentation</source>
            <translation>应为缩进一致的“名称: 值”行</translation>
        </message>
        <message>
            <source>expected &apos;name: value&apos;</source>
            <translation>应为“名称: 值”</translation>
        </message>
        <message>
            <source>strategy %1 cannot send gradients as %2</source>
            <translation>策略 %1 不能以 %2 发送梯度</translation>
        </message>
        <message>
            <source>its servers sum whole gradients as they arrive</source>
            <translation>其服务器把收到的完整梯度直接相加</translation>
        </message>
        <message>
            <source>its ranks exchange parameters, not gradients</source>
            <translation>其各 rank 交换的是参数而不是梯度</translation>
        </message>
        <message>
            <source>an all-reduce cannot be hierarchical here</source>
            <translation>此处的 all-reduce 不能分层进行</translation>
        </message>
        <message>
            <source>it needs ranks on several hosts, several of them on one, those of a host next to each other, and all groups alike</source>
            <translation>同组的 rank 须分布在多台主机上，其中有主机含多个 rank，同一主机的 rank 须相邻，且各组的分布相同</translation>
        </message>
        <message>
            <source>%1 compute threads share the %2 cores of one host, so a step takes longer than on hosts of their own</source>
            <translation>%1 个计算线程共用一台主机的 %2 个核心，因此每步比各用一台主机时更慢</translation>
        </message>
        <message>
            <source>the batch of %1 does not divide by %2 ranks: shares are %3 and %4 samples</source>
            <translation>批量 %1 不能被 %2 个 rank 整除：各份为 %3 和 %4 个样本</translation>
        </message>
        <message>
            <source>gradients are sent as %1: %2 become %3, %4 times less; a rank receives %5 a step, where uncompressed ones take %6; encoding takes %7 a step</source>
            <translation>梯度以 %1 传输：%2 变为 %3，缩小到 1/%4；每个 rank 每步接收 %5，不压缩则为 %6；编解码每步耗时 %7</translation>
        </message>
        <message>
            <source>the costs could not be measured: %1</source>
            <translation>无法测量开销：%1</translation>
        </message>
        <message>
            <source>uploading %1 of %2 MB</source>
            <translation>已上传 %1 / %2 MB</translation>
        </message>
        <message>
            <source>again in %1 s</source>
            <translation>%1 秒后重试</translation>
        </message>
        <message>
            <source>connecting again</source>
            <translation>正在重新连接</translation>
        </message>
        <message>
            <source>the supervisor ended</source>
            <translation>监管进程已结束</translation>
        </message>
        <message>
            <source>address is %1, which means every address; expected one of the node&apos;s, or none, to have one chosen</source>
            <translation>address 为 %1，它代表所有地址；应填该节点的一个地址，或留空由程序选择</translation>
        </message>
        <message>
            <source>name is &quot;%1&quot;; expected letters, digits, &apos;.&apos;, &apos;_&apos; and &apos;-&apos;, not &apos;.&apos; first, 128 at most</source>
            <translation>名称为“%1”；应由字母、数字、“.”、“_”和“-”组成，不以“.”开头，最多 128 个字符</translation>
        </message>
        <message>
            <source>address is %1, loopback, and node %2 is on another host; expected an address that %3 reaches, or none, to have one chosen</source>
            <translation>address 是回环地址 %1，而节点 %2 在另一台主机上；应填 %3 能到达的地址，或留空由程序选择</translation>
        </message>
        <message>
            <source>the ranks&apos; GPUs exchange among themselves, by NCCL; where the nodes do not have it, through the host</source>
            <translation>各 rank 的 GPU 之间通过 NCCL 直接交换数据；节点没有 NCCL 时经主机交换</translation>
        </message>
        <message>
            <source>comm is nccl, and the ranks&apos; GPUs cannot exchange among themselves</source>
            <translation>通信方式为 nccl，但各 rank 的 GPU 之间无法直接交换数据</translation>
        </message>
        <message>
            <source>comm is nccl, and the node&apos;s GPUs cannot exchange among themselves</source>
            <translation>通信方式为 nccl，但该节点的 GPU 之间无法直接交换数据</translation>
        </message>
        <message>
            <source>leave comm out of the cluster: what GPUs cannot exchange goes through the host</source>
            <translation>在集群中不写 comm：GPU 之间无法直接交换的数据经主机传递</translation>
        </message>
        <message>
            <source>install NCCL there, or leave comm out of the cluster: what GPUs cannot exchange goes through the host</source>
            <translation>在该节点安装 NCCL，或在集群中不写 comm：GPU 之间无法直接交换的数据经主机传递</translation>
        </message>
        <message>
            <source>%1 is missing</source>
            <translation>缺少 %1</translation>
        </message>
        <message>
            <source>batch</source>
            <translation>批量</translation>
        </message>
        <message>
            <source>evaluation batch</source>
            <translation>评估批量</translation>
        </message>
        <message>
            <source>strategy %1 runs on one node</source>
            <translation>策略 %1 只能把所有 rank 放在一个节点</translation>
        </message>
        <message>
            <source>ranks are on %1 and %2</source>
            <translation>rank 分布在 %1 和 %2</translation>
        </message>
        <message>
            <source>unknown strategy %1</source>
            <translation>未知策略 %1</translation>
        </message>
        <message>
            <source>this model has no layers that tensor parallelism divides</source>
            <translation>此模型没有可由张量并行拆分的层</translation>
        </message>
        <message>
            <source>it divides transformer blocks and pairs of dense layers</source>
            <translation>它拆分 transformer 块和成对的全连接层</translation>
        </message>
        <message>
            <source>batch norm %1 has %2 statistics groups of %3 samples, and %4 ranks cut the batch of %5 within one, at %6</source>
            <translation>批归一化 %1 有 %2 个统计组，每组 %3 个样本；%4 个 rank 把大小为 %5 的批次在一组之内（%6 处）切开</translation>
        </message>
        <message>
            <source>a group&apos;s statistics are computed where all of its samples are</source>
            <translation>一组的统计量在拥有其全部样本的地方计算</translation>
        </message>
        <message>
            <source>check the path and its permissions</source>
            <translation>检查路径及其权限</translation>
        </message>
        <message>
            <source>the run has no data.%1</source>
            <translation>运行没有 data.%1</translation>
        </message>
        <message>
            <source>name the file in the run</source>
            <translation>在运行中写明该文件</translation>
        </message>
        <message>
            <source>its file for %1 is not that of %2</source>
            <translation>它的 %1 文件与 %2 的不同</translation>
        </message>
        <message>
            <source>rank %1 differs from rank %2 in its %3</source>
            <translation>rank %1 与 rank %2 的 %3 不同</translation>
        </message>
        <message>
            <source>%1 has SHA-256 %2 here, %3 there</source>
            <translation>%1 在此处的 SHA-256 为 %2，在那里为 %3</translation>
        </message>
        <message>
            <source>mount the volume of %1 on this node, or rerun the run from its start</source>
            <translation>在此节点上挂载 %1 的卷，或从头重新启动该运行</translation>
        </message>
        <message>
            <source>rerun it from its start, or name another run or a folder of checkpoints on this node</source>
            <translation>从头重新启动，或给出另一个运行，或此节点上的检查点文件夹</translation>
        </message>
        <message>
            <source>cannot read the data file %1</source>
            <translation>无法读取数据文件 %1</translation>
        </message>
        <message>
            <source>its sha256 is %1; expected %2</source>
            <translation>其 sha256 为 %1，应为 %2</translation>
        </message>
        <message>
            <source>put the right file there, or correct the hash in the spec</source>
            <translation>把正确的文件放到那里，或改正规格中的哈希</translation>
        </message>
        <message>
            <source>its images are %1; the model takes %2</source>
            <translation>其图像为 %1，而模型要求 %2</translation>
        </message>
        <message>
            <source>check that images and labels are not swapped</source>
            <translation>图像处写图像文件，标签处写标签文件</translation>
        </message>
        <message>
            <source>give images of that shape, or make it model.input.shape</source>
            <translation>使用该形状的图像，或改 model.input.shape</translation>
        </message>
        <message>
            <source>give the labels of these images, or correct model.classes</source>
            <translation>使用这些图像的标签，或改正 model.classes</translation>
        </message>
        <message>
            <source>expected %1</source>
            <translation>应为 %1</translation>
        </message>
        <message>
            <source>the fields %1</source>
            <translation>字段 %1</translation>
        </message>
        <message>
            <source>at least %1</source>
            <translation>至少 %1</translation>
        </message>
        <message>
            <source>a group of fields</source>
            <translation>一组字段</translation>
        </message>
        <message>
            <source>check whether the node and its agent answer: lockstep cluster check FILE</source>
            <translation>检查节点及其代理是否应答：lockstep cluster check FILE</translation>
        </message>
        <message>
            <source>no answer in time</source>
            <translation>未及时应答</translation>
        </message>
        <message>
            <source>the answer of the node has values that are impossible</source>
            <translation>节点的应答含有不可能的值</translation>
        </message>
        <message>
            <source>check that path</source>
            <translation>检查该路径</translation>
        </message>
        <message>
            <source>check who owns it and its permissions</source>
            <translation>检查其所有者和权限</translation>
        </message>
        <message>
            <source>choose a place that can be written</source>
            <translation>选择可写的位置</translation>
        </message>
        <message>
            <source>free space there</source>
            <translation>在那里释放空间</translation>
        </message>
        <message>
            <source>free memory</source>
            <translation>释放内存</translation>
        </message>
        <message>
            <source>check the disk</source>
            <translation>检查磁盘</translation>
        </message>
        <message>
            <source>raise the limit of open files (ulimit -n)</source>
            <translation>提高打开文件数的上限（ulimit -n）</translation>
        </message>
        <message>
            <source>not enough memory for the run&apos;s ranks</source>
            <translation>内存不足以容纳本次运行的 rank</translation>
        </message>
        <message>
            <source>%1 ranks need %2 MiB, %3 MiB are available</source>
            <translation>%1 个 rank 需要 %2 MiB，可用 %3 MiB</translation>
        </message>
        <message>
            <source>use a smaller batch or model, put fewer ranks on this node, or free memory there</source>
            <translation>使用更小的批量或模型，在此节点上放更少的 rank，或在那里释放内存</translation>
        </message>
        <message>
            <source>check whether `ssh %1` works here</source>
            <translation>检查 `ssh %1` 在此是否可用</translation>
        </message>
        <message>
            <source>look at agent.log in its workdir</source>
            <translation>查看其工作目录中的 agent.log</translation>
        </message>
        <message>
            <source>its launch was never completed: the program that launched it ended</source>
            <translation>启动未完成：启动它的程序已结束</translation>
        </message>
        <message>
            <source>`lockstep kill %1` ends it once node %2 answers again</source>
            <translation>节点 %2 恢复应答后可用 `lockstep kill %1` 结束它</translation>
        </message>
        <message>
            <source>it is not known whether run %1 has begun</source>
            <translation>无法得知运行 %1 是否已开始</translation>
        </message>
        <message>
            <source>the launch was cancelled, but node %1 does not answer</source>
            <translation>启动已取消，但节点 %1 没有应答</translation>
        </message>
        <message>
            <source>its launch was not completed: launch it again</source>
            <translation>启动未完成：请重新启动</translation>
        </message>
        <message>
            <source>strategy.local_steps is %1, but %2 has none; expected it left out</source>
            <translation>strategy.local_steps 为 %1，但 %2 没有本地步；应省略</translation>
        </message>
        <message>
            <source>strategy.staleness is %1, but %2 is synchronous; expected 0, or kind parameter-server</source>
            <translation>strategy.staleness 为 %1，但 %2 各 rank 同步前进；应为 0，或将 kind 设为 parameter-server</translation>
        </message>
        <message>
            <source>each rank updates all layers independently</source>
            <translation>每个 rank 自行更新所有层</translation>
        </message>
        <message>
            <source>batch norm %1 cannot be trained by asynchronous workers</source>
            <translation>互不等待的工作进程无法训练批归一化 %1</translation>
        </message>
        <message>
            <source>its statistics are those of all workers&apos; samples</source>
            <translation>其统计量取自所有工作进程的样本</translation>
        </message>
        <message>
            <source>line %1: it has %2 columns, expected %3: a label, %4 numbers and %5 categories, between %6</source>
            <translation>第 %1 行：有 %2 列，应为 %3 列：一个标签、%4 个数值和 %5 个类别，分隔符为 %6</translation>
        </message>
        <message>
            <source>tabs</source>
            <translation>制表符</translation>
        </message>
        <message>
            <source>commas</source>
            <translation>逗号</translation>
        </message>
        <message>
            <source>line %1: column %2 is &quot;%3&quot;, expected a finite number or nothing</source>
            <translation>第 %1 行：第 %2 列为“%3”，应为有限的数或空</translation>
        </message>
        <message>
            <source>line %1: the label is &quot;%2&quot;, expected %3 to %4</source>
            <translation>第 %1 行：标签为“%2”，应为 %3 到 %4</translation>
        </message>
        <message>
            <source>line %1: the label is &quot;%2&quot;, expected a finite number</source>
            <translation>第 %1 行：标签为“%2”，应为有限的数</translation>
        </message>
        <message>
            <source>correct the line, or model.input</source>
            <translation>更正该行，或更正 model.input</translation>
        </message>
        <message>
            <source>the table %1 is too short</source>
            <translation>表 %1 太短</translation>
        </message>
        <message>
            <source>it has %1 rows, none of them from %2 to %3 of it</source>
            <translation>它有 %1 行，其 %2 至 %3 部分中没有一行</translation>
        </message>
        <message>
            <source>give a longer table, or more of it</source>
            <translation>提供更长的表，或使用其中更多部分</translation>
        </message>
        <message>
            <source>tables of %1 are divided over the servers by rows: rank 0 receives at most %2 rows a step, and exchanges at most %3</source>
            <translation>共 %1 的表按行放在服务器上：秩 0 每步最多接收 %2 行，最多交换 %3</translation>
        </message>
        <message>
            <source>strategy %1 has no servers for tables</source>
            <translation>策略 %1 没有存放表的服务器</translation>
        </message>
        <message>
            <source>workers that all-reduce the dense part are synchronous</source>
            <translation>对稠密部分做 all-reduce 的工作者每一步都同步进行</translation>
        </message>
        <message>
            <source>an all-reduce waits for all of them</source>
            <translation>all-reduce 要等待所有工作者</translation>
        </message>
        <message>
            <source>gradients that are divided between servers and workers cannot be clipped</source>
            <translation>服务器与工作者各有一部分的梯度无法裁剪</translation>
        </message>
        <message>
            <source>no rank knows the norm of all of them</source>
            <translation>没有任何一方知道全部梯度的长度</translation>
        </message>
        <message>
            <source>asynchronous workers cannot share a loss scale</source>
            <translation>互不等待的工作者没有共同的损失缩放倍数</translation>
        </message>
        <message>
            <source>whether gradients overflow fp16 is known only when all of them have arrived</source>
            <translation>只有全部梯度都到齐，才知道一步的梯度对 fp16 是否过大</translation>
        </message>
        <message>
            <source>servers and workers that each hold part of the gradients cannot share a loss scale</source>
            <translation>服务器与工作者各有一部分梯度，没有共同的损失缩放倍数</translation>
        </message>
        <message>
            <source>no rank knows whether all of them are finite</source>
            <translation>没有任何一方知道全部梯度是否有限</translation>
        </message>
        <message>
            <source>strategy %1 cannot compress gradients of micro-batches that may overflow fp16</source>
            <translation>策略 %1 无法编码可能对 fp16 过大的微批次梯度</translation>
        </message>
        <message>
            <source>the residual is kept before it is known whether the step is skipped</source>
            <translation>编码所丢下的部分在得知该步是否更新之前就已保存</translation>
        </message>
        <message>
            <source>training.loss_scale.initial is %1; expected a power of two from 2^-%2 to 2^%3, as 65536</source>
            <translation>training.loss_scale.initial 为 %1；应为 2^-%2 到 2^%3 之间的 2 的幂，例如 65536</translation>
        </message>
        <message>
            <source>gradients overflow, so the step is skipped and shows none</source>
            <translation>梯度溢出，而不更新任何参数的一步显示不出梯度</translation>
        </message>
        <message>
            <source>set training.loss_scale.initial to a smaller power of two</source>
            <translation>请将 training.loss_scale.initial 设为更小的 2 的幂</translation>
        </message>
        <message>
            <source>the training diverged: %1</source>
            <translation>训练发散：%1</translation>
        </message>
        <message>
            <source>%1 is not finite in step %2</source>
            <translation>第 %2 步的%1不是有限数</translation>
        </message>
        <message>
            <source>the loss</source>
            <translation>损失</translation>
        </message>
        <message>
            <source>the loss of the evaluation</source>
            <translation>评估损失</translation>
        </message>
        <message>
            <source>the %1 is not finite after step %2</source>
            <translation>第 %2 步之后 %1 不是有限数</translation>
        </message>
        <message>
            <source>the first tensor that is not finite is %1</source>
            <translation>第一个不是有限数的张量是 %1</translation>
        </message>
        <message>
            <source>lower training.optimizer.learning_rate, set training.optimizer.clip_norm, or look for extreme values in the data; training.on_nonfinite=continue trains on all the same</source>
            <translation>请降低 training.optimizer.learning_rate、设置 training.optimizer.clip_norm，或检查数据中的极端值；设 training.on_nonfinite=continue 则仍继续训练</translation>
        </message>
        <message>
            <source>the checkpoint %1 comes from training that diverged</source>
            <translation>检查点 %1 来自已发散的训练</translation>
        </message>
        <message>
            <source>the %1 is not finite from element %2 on</source>
            <translation>%1 自第 %2 个元素起不是有限数</translation>
        </message>
        <message>
            <source>resume from an earlier checkpoint with a lower training.optimizer.learning_rate, or set training.on_nonfinite=continue to use this one anyway</source>
            <translation>请以更低的 training.optimizer.learning_rate 从更早的检查点恢复，或设 training.on_nonfinite=continue 以继续使用此检查点</translation>
        </message>
        <message>
            <source>the checkpoint %1 cannot be used; training continues from %2</source>
            <translation>检查点 %1 无法使用：训练从 %2 继续</translation>
        </message>
        <message>
            <source>the checkpoint %1 has no checksums, so damage to it would go unnoticed</source>
            <translation>检查点 %1 没有校验和，若有损坏则无法发现</translation>
        </message>
        <message>
            <source>it was written by an earlier version</source>
            <translation>它由较早的版本写入</translation>
        </message>
        <message>
            <source>the file %1 is damaged</source>
            <translation>文件 %1 已损坏</translation>
        </message>
        <message>
            <source>the checksum of tensor %1 does not match in block %2, bytes %3 to %4</source>
            <translation>张量 %1 的第 %2 块（字节 %3 至 %4）的校验和不匹配</translation>
        </message>
        <message>
            <source>the checksum of tensor %1 does not match</source>
            <translation>张量 %1 的校验和不符</translation>
        </message>
        <message>
            <source>the header&apos;s checksum does not match</source>
            <translation>文件头的校验和不符</translation>
        </message>
        <message>
            <source>it is shorter than its length field</source>
            <translation>比其长度字段还短</translation>
        </message>
        <message>
            <source>it has %1 bytes, but claims a header of %2</source>
            <translation>它有 %1 字节，但声明其文件头有 %2 字节</translation>
        </message>
        <message>
            <source>it is a folder</source>
            <translation>它是一个文件夹</translation>
        </message>
        <message>
            <source>it is not a regular file</source>
            <translation>它不是普通文件</translation>
        </message>
        <message>
            <source>rank %1 failed: %2</source>
            <translation>rank %1 失败：%2</translation>
        </message>
        <message>
            <source>its format is not %1</source>
            <translation>其格式不是 %1</translation>
        </message>
        <message>
            <source>no rank can read %1</source>
            <translation>没有 rank 能读取 %1</translation>
        </message>
        <message>
            <source>%1 does not list all parts of tensor %2</source>
            <translation>%1 没有列出张量 %2 的所有部分</translation>
        </message>
        <message>
            <source>the file %1 does not have tensor %2, which the manifest lists</source>
            <translation>文件 %1 缺少其清单所列的张量 %2</translation>
        </message>
        <message>
            <source>it was truncated while it was being read</source>
            <translation>读取过程中文件被截断</translation>
        </message>
        <message>
            <source>the header of %1</source>
            <translation>%1 的头部</translation>
        </message>
        <message>
            <source>training.checkpoint.path is %1; expected an absolute path that is the same on all nodes</source>
            <translation>training.checkpoint.path 为 %1；应为所有节点上都相同的绝对路径</translation>
        </message>
        <message>
            <source>its checksum is missing</source>
            <translation>缺少校验和</translation>
        </message>
        <message>
            <source>its checksum does not match</source>
            <translation>校验和不符</translation>
        </message>
        <message>
            <source>rank %1 has waited %2 for its disk</source>
            <translation>rank %1 等待其磁盘已有 %2</translation>
        </message>
        <message>
            <source>check whether the disk of its node&apos;s work folder responds, then resume</source>
            <translation>查看其节点工作文件夹所在的磁盘是否有响应，然后恢复运行</translation>
        </message>
        <message>
            <source>none of the %1 checkpoints there can be used: start over</source>
            <translation>那里的 %1 个检查点都无法使用：请重新开始</translation>
        </message>
        <message>
            <source>resume from another checkpoint, or start over</source>
            <translation>请从另一个检查点恢复，或重新开始</translation>
        </message>
        <message>
            <source>the system has no more memory for this process</source>
            <translation>系统不再给此进程更多内存</translation>
        </message>
        <message>
            <source>free memory on the node, or use less: fewer ranks there, a smaller batch or model, or zero-3</source>
            <translation>请在该节点上释放内存，或减少用量：更少的 rank、更小的批次或模型，或使用 zero-3</translation>
        </message>
        <message>
            <source>the last %1 updates, up to step %2, were all skipped</source>
            <translation>到第 %2 步为止，最近 %1 次更新都未能进行</translation>
        </message>
        <message>
            <source>gradients are not finite at any loss scale</source>
            <translation>无论损失如何缩放，梯度都不是有限数</translation>
        </message>
        <message>
            <source>lower the learning rate, look for NaN in the data, or train in bf16</source>
            <translation>请降低学习率、检查数据中的非数值，或用 bf16 训练</translation>
        </message>
        <message>
            <source>this model has no table for servers to hold</source>
            <translation>此模型没有可由服务器存放的表</translation>
        </message>
        <message>
            <source>servers hold tables that only embeddings read, with fewer ids in a batch than rows</source>
            <translation>表只由嵌入读取，且一个批次中的编号少于表的行数</translation>
        </message>
        <message>
            <source>cannot read the data file %1 on this machine</source>
            <translation>无法读取本机上的数据文件 %1</translation>
        </message>
        <message>
            <source>the data file %1 has changed since the launch began</source>
            <translation>启动开始后数据文件 %1 已被改动</translation>
        </message>
        <message>
            <source>cannot look for the data file %1</source>
            <translation>无法查找数据文件 %1</translation>
        </message>
        <message>
            <source>cannot copy the data file %1 to the node</source>
            <translation>无法把数据文件 %1 复制到节点</translation>
        </message>
        <message>
            <source>the data file %1 did not arrive whole</source>
            <translation>数据文件 %1 未完整到达</translation>
        </message>
        <message>
            <source>the data file %1 arrived with other content</source>
            <translation>到达的数据文件 %1 不是所要的文件</translation>
        </message>
        <message>
            <source>no space for the data file %1 in %2</source>
            <translation>%2 中没有空间放置数据文件 %1</translation>
        </message>
        <message>
            <source>%1 bytes were announced, %2 arrived</source>
            <translation>声明为 %1 字节，到达 %2 字节</translation>
        </message>
        <message>
            <source>it is not a file</source>
            <translation>它不是文件</translation>
        </message>
        <message>
            <source>put the file there, or correct its path in the run or in the node&apos;s `data`, or set data.copy_to_nodes</source>
            <translation>把文件放到那里，或在运行或节点的 `data` 中改正路径，或设置 data.copy_to_nodes</translation>
        </message>
        <message>
            <source>copy the right file to this node, or set data.copy_to_nodes</source>
            <translation>把正确的文件复制到此节点，或设置 data.copy_to_nodes</translation>
        </message>
        <message>
            <source>copy the same file to every node, or set data.copy_to_nodes</source>
            <translation>把同一文件复制到每个节点，或设置 data.copy_to_nodes</translation>
        </message>
        <message>
            <source>check whether something writes to it, and launch again</source>
            <translation>查看是否有程序在写入该文件，然后重新启动</translation>
        </message>
        <message>
            <source>correct the file on this machine, or its hash in the run</source>
            <translation>改正本机上的文件，或运行中的哈希</translation>
        </message>
        <message>
            <source>correct its path in the run, or leave data.copy_to_nodes out and put it on the nodes</source>
            <translation>改正运行中的路径，或去掉 data.copy_to_nodes 并把文件放到节点上</translation>
        </message>
        <message>
            <source>the learning rate is %1: %2 for a batch of %3, in proportion to this one of %4</source>
            <translation>学习率为 %1：批量 %3 时为 %2，按比例用于此批量 %4</translation>
        </message>
        <message>
            <source>strategy.local_steps is chosen: %1, the largest divisor of the batch of %2 up to %3 that leaves each rank a sample of each part</source>
            <translation>strategy.local_steps 自动选为 %1：批次 %2 的不超过 %3 且使每个 rank 在每一部分中都有样本的最大约数</translation>
        </message>
        <message>
            <source>gradients of %1 parts are summed in a fixed order: a rank receives %2 a step for that, where a plain all-reduce takes %3</source>
            <translation>%1 份梯度按同一顺序相加：每个 rank 每步为此接收 %2，若只求和则为 %3</translation>
        </message>
        <message>
            <source>roles is %1; expected one of worker, ps, evaluator and spare; to give a host several roles, list it as several nodes</source>
            <translation>roles 为 %1；应为 worker、ps、evaluator 和 spare 之一；若一台主机有多个角色，请把它写作多个节点</translation>
        </message>
        <message>
            <source>node %1 is a spare: it replaces a lost node</source>
            <translation>节点 %1 是备用节点：它接替失去的节点</translation>
        </message>
        <message>
            <source>no spare node can replace node %1</source>
            <translation>没有备用节点可以接替节点 %1</translation>
        </message>
        <message>
            <source>add a node with the role spare, or set recovery.policy=shrink</source>
            <translation>请添加角色为 spare 的节点，或设置 recovery.policy=shrink</translation>
        </message>
        <message>
            <source>none of the run&apos;s remaining nodes has ranks</source>
            <translation>运行的其余节点都没有 rank</translation>
        </message>
        <message>
            <source>check the node and its network; the run is not affected, because this spare is not in use</source>
            <translation>请检查该节点及其网络；它是未使用的备用节点，运行不受影响</translation>
        </message>
        <message>
            <source>nodes %1 were lost</source>
            <translation>节点 %1 已失去</translation>
        </message>
        <message>
            <source>check the node and its network</source>
            <translation>请检查该节点及其网络</translation>
        </message>
        <message>
            <source>the run continues without node %1</source>
            <translation>运行在没有节点 %1 的情况下继续</translation>
        </message>
        <message>
            <source>the run continues from its last checkpoint with %1 ranks on %2: %3</source>
            <translation>运行以 %2 上的 %1 个 rank 从最近的检查点继续：%3</translation>
        </message>
        <message>
            <source>node %1 takes no part: its role is ps, and strategy %2 has no servers</source>
            <translation>节点 %1 不参与：其角色为 ps，而策略 %2 没有服务器</translation>
        </message>
        <message>
            <source>batch norm %1 cannot be trained by ranks that update independently</source>
            <translation>批归一化 %1 不能由各自更新的 rank 训练</translation>
        </message>
        <message>
            <source>batch norm %1 cannot be trained with strategy.deterministic_parts</source>
            <translation>批归一化 %1 不能在设置 strategy.deterministic_parts 时训练</translation>
        </message>
        <message>
            <source>layer %1 is pinned to stage %2, and there is one stage</source>
            <translation>层 %1 固定在阶段 %2，而只有一个阶段</translation>
        </message>
        <message>
            <source>%1 is an evaluator, and so is %2; expected one in a cluster</source>
            <translation>%1 是评估节点，%2 也是；一个集群应只有一个</translation>
        </message>
        <message>
            <source>node %1 evaluates after each epoch in place of the ranks: it needs %2 of memory</source>
            <translation>节点 %1 在每轮之后评估，各 rank 不再评估：它需要 %2 内存</translation>
        </message>
        <message>
            <source>node %1 is to evaluate checkpoints, and the run makes none</source>
            <translation>节点 %1 要评估检查点，而此次运行不写检查点</translation>
        </message>
        <message>
            <source>the weights after step %1 could not be evaluated</source>
            <translation>第 %1 步之后的权重未能评估</translation>
        </message>
        <message>
            <source>the training goes on, and so does evaluation after its next epoch</source>
            <translation>训练继续，下一轮之后照常评估</translation>
        </message>
        <message>
            <source>node %1 does not evaluate any more</source>
            <translation>节点 %1 不再评估</translation>
        </message>
        <message>
            <source>the training goes on without evaluation</source>
            <translation>训练继续，不再有评估</translation>
        </message>
        <message>
            <source>the last epoch was not evaluated within %1 s of the training&apos;s end</source>
            <translation>训练结束后 %1 秒内最后一轮未评估完</translation>
        </message>
        <message>
            <source>waits for node %1 to evaluate the last epoch, for %2 s at most</source>
            <translation>等待节点 %1 评估最后一轮，最多 %2 秒</translation>
        </message>
        <message>
            <source>waits for copies of the checkpoint at step %1 on other nodes, for %2 s at most</source>
            <translation>等待其他节点上第 %1 步检查点的副本，最多 %2 秒</translation>
        </message>
        <message>
            <source>the trained model of node %1 has no copy</source>
            <translation>节点 %1 上训练好的模型没有副本</translation>
        </message>
        <message>
            <source>if that node is lost, resume the run: it ends with the same model</source>
            <translation>若该节点丢失，请恢复运行：结束时会得到同样的模型</translation>
        </message>
        <message>
            <source>waits for a copy of the trained model on another node, for %1 s at most</source>
            <translation>等待另一节点上训练好的模型的副本，最多 %1 秒</translation>
        </message>
        <message>
            <source>cannot make the file of collectives</source>
            <translation>无法创建集合通信计数文件</translation>
        </message>
        <message>
            <source>cannot make the link %1</source>
            <translation>无法创建链接 %1</translation>
        </message>
        <message>
            <source>the trained model is not copied</source>
            <translation>训练好的模型没有被复制</translation>
        </message>
        <message>
            <source>the checkpoint at step %1 is not copied</source>
            <translation>第 %1 步的检查点没有副本</translation>
        </message>
        <message>
            <source>the copies were not there within %1 s of the training&apos;s end</source>
            <translation>训练结束后 %1 秒内副本未完成</translation>
        </message>
        <message>
            <source>a node whose disk is lost now takes its part of the checkpoint with it</source>
            <translation>此后若某个节点的磁盘丢失，检查点中属于它的部分也随之丢失</translation>
        </message>
        <message>
            <source>with zb-h1 a stage keeps what gradients of weights are made of until their turn: up to about twice the activations that the first stage keeps with 1f1b</source>
            <translation>采用 zb-h1 时，每个阶段保留计算权重梯度所需的数据直到轮到计算：最多约为 1f1b 中第一阶段所保留激活值的两倍</translation>
        </message>
        <message>
            <source>zero-2 holds what zero-1 holds where there is one micro-batch: in both a rank keeps its part of each gradient alone; what zero-2 divides besides is the sums of several</source>
            <translation>只有一个微批次时，zero-2 与 zero-1 占用相同：两者中每个 rank 都只保留各梯度中自己的一份；zero-2 另外切分的是多个微批次的累加和</translation>
        </message>
        <message>
            <source>rank 0&apos;s collectives take %1 a step, of which %2 are hidden behind computation</source>
            <translation>rank 0 每步的集合通信需要 %1，其中 %2 隐藏在计算之后</translation>
        </message>
        <message>
            <source>GPU %1 does not answer</source>
            <translation>GPU %1 没有响应</translation>
        </message>
        <message>
            <source>the driver reports an error of GPU %1: Xid %2</source>
            <translation>驱动程序报告 GPU %1 出错：Xid %2</translation>
        </message>
        <message>
            <source>GPU %1 has uncorrected memory errors: %2</source>
            <translation>GPU %1 有未纠正的显存错误：%2</translation>
        </message>
        <message>
            <source>GPU %1 is slowed down %2</source>
            <translation>GPU %1 %2</translation>
        </message>
        <message>
            <source>the PCIe link of GPU %1 has %2 of %3 lanes</source>
            <translation>GPU %1 的 PCIe 链路只有 %2 条通道，共 %3 条</translation>
        </message>
        <message>
            <source>for heat</source>
            <translation>因过热而降速</translation>
        </message>
        <message>
            <source>by the power supply</source>
            <translation>因供电而降速</translation>
        </message>
        <message>
            <source>by its hardware</source>
            <translation>被硬件降速</translation>
        </message>
        <message>
            <source>it has %1 °C</source>
            <translation>温度为 %1 °C</translation>
        </message>
        <message>
            <source>the NVIDIA driver does not answer: %1</source>
            <translation>NVIDIA 驱动程序没有响应：%1</translation>
        </message>
        <message>
            <source>the NVIDIA driver has not answered for %1 s</source>
            <translation>NVIDIA 驱动程序已有 %1 秒没有响应</translation>
        </message>
        <message>
            <source>the driver sees %1 GPUs; there were %2</source>
            <translation>驱动程序看到 %1 个 GPU，此前有 %2 个</translation>
        </message>
        <message>
            <source>see the node&apos;s kernel messages; it may have to be restarted</source>
            <translation>查看该节点的内核消息；可能需要重新启动它</translation>
        </message>
        <message>
            <source>see the node&apos;s kernel messages, and NVIDIA&apos;s list of Xid errors</source>
            <translation>查看该节点的内核消息，以及 NVIDIA 的 Xid 错误列表</translation>
        </message>
        <message>
            <source>take the node out of the cluster and restart it; where it stays so, the GPU is broken</source>
            <translation>把该节点移出集群并重新启动；若仍然如此，则 GPU 已损坏</translation>
        </message>
        <message>
            <source>check its cooling and power</source>
            <translation>检查它的散热和供电</translation>
        </message>
        <message>
            <source>reseat the GPU, or look at its slot and riser</source>
            <translation>重新插好 GPU，或检查插槽和转接卡</translation>
        </message>
        <message>
            <source>%1 is %2, which leaves some of %3 ranks without a sample%4</source>
            <translation>%1 为 %2，%3 个 rank 中有的分不到样本%4</translation>
        </message>
        <message>
            <source>%1 is %2, which %3 ranks cannot share evenly%4</source>
            <translation>%1 为 %2，%3 个 rank 无法均分%4</translation>
        </message>
        <message>
            <source> in each of %1 micro-batches</source>
            <translation>（%1 个微批次的每一个）</translation>
        </message>
        <message>
            <source>every rank needs a sample</source>
            <translation>每个 rank 至少需要一个样本</translation>
        </message>
        <message>
            <source>the ranks of a pipeline's stage have equal shares</source>
            <translation>流水线同一阶段的各 rank 份额相等</translation>
        </message>
        <message>
            <source>its gradients are summed in equal parts (strategy.deterministic_parts)</source>
            <translation>其梯度按相等的份求和（strategy.deterministic_parts）</translation>
        </message>
        <message>
            <source>every rank needs a sample of each step</source>
            <translation>每个 rank 在每一步中都需要一个样本</translation>
        </message>
        <message>
            <source>every rank needs a sample of each micro-batch</source>
            <translation>每个 rank 在每个微批次中都需要一个样本</translation>
        </message>
        <message>
            <source>every rank needs a sample of each evaluation step</source>
            <translation>每个 rank 在每个评估步中都需要一个样本</translation>
        </message>
        <message>
            <source>strategy.shares has %1 numbers, and the batch is divided over %2 ranks</source>
            <translation>strategy.shares 有 %1 个数，而批次由 %2 个 rank 分担</translation>
        </message>
        <message>
            <source>each of these ranks needs a share</source>
            <translation>其中每个 rank 都需要一个份额</translation>
        </message>
        <message>
            <source>a pipeline's batch cannot be divided by strategy.shares</source>
            <translation>流水线的批次不能按 strategy.shares 划分</translation>
        </message>
        <message>
            <source>strategy.shares[%1], %2 of %3, leaves rank %4 no sample of %5</source>
            <translation>strategy.shares[%1]（%3 中的 %2）使 rank %4 在 %5 个样本中一个也分不到</translation>
        </message>
        <message>
            <source>%1 has %2 parts (heads or features), which strategy.tensor ranks, %3, cannot share evenly</source>
            <translation>%1 有 %2 份（注意力头或特征），strategy.tensor 的 %3 个 rank 无法均分</translation>
        </message>
        <message>
            <source>every rank that shares layers computes an equal part of each</source>
            <translation>共享层的每个 rank 计算每层的相等部分</translation>
        </message>
        <message>
            <source>strategy %1 has no stages, and strategy.stages is %2</source>
            <translation>策略 %1 没有阶段，而 strategy.stages 为 %2</translation>
        </message>
        <message>
            <source>a model of %1 layers cannot have %2 stages</source>
            <translation>%1 层的模型不能分为 %2 个阶段</translation>
        </message>
        <message>
            <source>every stage needs a layer</source>
            <translation>每个阶段至少需要一层</translation>
        </message>
        <message>
            <source>strategy placement needs pinned layers</source>
            <translation>策略 placement 需要固定的层</translation>
        </message>
        <message>
            <source>strategy.pins says which stage has which</source>
            <translation>由 strategy.pins 指定哪个阶段有哪些层</translation>
        </message>
        <message>
            <source>strategy.pins names layer %1, which the model does not have</source>
            <translation>strategy.pins 提到了模型中没有的层 %1</translation>
        </message>
        <message>
            <source>strategy.pins has layer %1 on stage %2, and there are %3 stages</source>
            <translation>strategy.pins 把层 %1 放在阶段 %2，而共有 %3 个阶段</translation>
        </message>
        <message>
            <source>stages are numbered from 0 to %1</source>
            <translation>阶段编号为 0 到 %1</translation>
        </message>
        <message>
            <source>strategy.pins has no layer on stage %1 of %2</source>
            <translation>strategy.pins 在第 %1 阶段（共 %2 个）没有放任何层</translation>
        </message>
        <message>
            <source>layers pinned back and forth cannot be trained in micro-batches</source>
            <translation>来回固定的层不能用微批次训练</translation>
        </message>
        <message>
            <source>a stage passes micro-batches on to later ones</source>
            <translation>阶段把微批次传给后面的阶段</translation>
        </message>
        <message>
            <source>strategy.staleness is %1 and strategy.micro_batches %2, but servers take what a worker sends as one update; expected one of them left out</source>
            <translation>strategy.staleness 为 %1，strategy.micro_batches 为 %2，但服务器把工作进程发来的内容当作一次更新；应省略其中之一</translation>
        </message>
        <message>
            <source>gradients sent as %1 would take more of the network than uncompressed ones: each of %2 ranks would receive %3 times the gradients a step, where uncompressed ones take %4 times</source>
            <translation>以 %1 传输的梯度比不压缩更占网络：%2 个 rank 每步各接收梯度的 %3 倍，不压缩则为 %4 倍</translation>
        </message>
        <message>
            <source>sent so they are %1 times as large</source>
            <translation>这样传输时体积是原来的 %1 倍</translation>
        </message>
        <message>
            <source>a rank receives the gradients of every other, each %1 times smaller: expected at most %2 ranks</source>
            <translation>每个 rank 接收其他所有 rank 的梯度，每份缩小到 1/%1：应至多 %2 个 rank</translation>
        </message>
        <message>
            <source>strategy.deterministic_parts is %1: each of %2 ranks would receive %3 times the gradients a step, %4 times what a plain all-reduce moves; expected at most %5 parts</source>
            <translation>strategy.deterministic_parts 为 %1：%2 个 rank 每步各接收梯度的 %3 倍，是普通全归约传输量的 %4 倍；应至多 %5 份</translation>
        </message>
        <message>
            <source>every rank receives the gradients of all parts and sums them in one order, which is for verification on few ranks</source>
            <translation>每个 rank 接收所有份的梯度并按同一顺序相加，只适合在少量 rank 上做验证</translation>
        </message>
        <message>
            <source>gradients sent as %1 cannot be summed in a fixed order</source>
            <translation>以 %1 传输的梯度不能按同一顺序相加</translation>
        </message>
        <message>
            <source>strategy.deterministic_parts is %1, but %2%3 cannot add up gradients in one order; expected 0</source>
            <translation>strategy.deterministic_parts 为 %1，但 %2%3 不能按同一顺序累加梯度；应为 0</translation>
        </message>
        <message>
            <source>auto with servers</source>
            <translation>带服务器的 auto</translation>
        </message>
        <message>
            <source> with stages</source>
            <translation>（分阶段）</translation>
        </message>
        <message>
            <source>strategy.shares and strategy.deterministic_parts exclude each other; expected one of them</source>
            <translation>strategy.shares 与 strategy.deterministic_parts 不能同时使用；应只保留一个</translation>
        </message>
        <message>
            <source>strategy.deterministic_parts is %1 and strategy.micro_batches %2, which both divide the batch; expected one of them</source>
            <translation>strategy.deterministic_parts 为 %1，strategy.micro_batches 为 %2，两者都划分批次；应只保留一个</translation>
        </message>
        <message>
            <source>strategy.micro_batches is %1, but %2 divides the batch by strategy.local_steps; expected 1</source>
            <translation>strategy.micro_batches 为 %1，但 %2 按 strategy.local_steps 划分批次；应为 1</translation>
        </message>
        <message>
            <source>strategy.servers is %1, but %2 has none; expected 0</source>
            <translation>strategy.servers 为 %1，但 %2 没有服务器；应为 0</translation>
        </message>
        <message>
            <source>strategy.servers is %1, and the nodes of role ps have %2 devices; expected it left out</source>
            <translation>strategy.servers 为 %1，而 ps 角色的节点有 %2 个设备；应省略</translation>
        </message>
        <message>
            <source>%1 is %2, but batch norm %3 takes statistics over ranks; expected %4, or another norm</source>
            <translation>%1 为 %2，但批归一化 %3 跨 rank 统计；应为 %4，或改用其他归一化</translation>
        </message>
        <message>
            <source>%1 is %2, and each of %3 micro-batches has statistics of its own; expected %4, or another multiple of %5</source>
            <translation>%1 为 %2，而 %3 个微批次各有自己的统计；应为 %4，或 %5 的其他倍数</translation>
        </message>
        <message>
            <source>%1 is %2; expected a divisor of training.batch, %3</source>
            <translation>%1 为 %2；应为 training.batch（%3）的约数</translation>
        </message>
        <message>
            <source>schedule %1 needs an end, and neither %2steps nor training.max_steps is given</source>
            <translation>学习率计划 %1 需要终点，而 %2steps 和 training.max_steps 都没有给出</translation>
        </message>
        <message>
            <source>the host of node %1</source>
            <translation>节点 %1 的主机</translation>
        </message>
        <message>
            <source>GPU %1 of node %2</source>
            <translation>节点 %2 的 GPU %1</translation>
        </message>
        <message>
            <source>use more ranks, a smaller batch or a smaller model, whose parameters and optimizer state are %1</source>
            <translation>请增加 rank、减小批次或缩小模型；模型的参数和优化器状态共 %1</translation>
        </message>
        <message>
            <source>the node cannot listen for its peers</source>
            <translation>该节点无法监听其他节点的连接</translation>
        </message>
        <message>
            <source>the node cannot look for its peers</source>
            <translation>该节点无法连接其他节点</translation>
        </message>
        <message>
            <source>node %1 has no address at which the other nodes reach it</source>
            <translation>节点 %1 没有其他节点可以访问的地址</translation>
        </message>
        <message>
            <source>launch again: an address is chosen where the cluster has none</source>
            <translation>请重新启动：集群未指定地址时会自动选择</translation>
        </message>
        <message>
            <source>GPU %1 cannot compute in bf16</source>
            <translation>GPU %1 不能以 bf16 计算</translation>
        </message>
        <message>
            <source>%1 has compute capability %2.%3, bf16 needs %4.0 or above</source>
            <translation>%1 的计算能力为 %2.%3，bf16 需要 %4.0 或更高</translation>
        </message>
        <message>
            <source>set training.precision to fp16 or fp32</source>
            <translation>请将 training.precision 设为 fp16 或 fp32</translation>
        </message>
        <message>
            <source>Gloo used a connection that was not made for it</source>
            <translation>Gloo 使用了另一个连接</translation>
        </message>
        <message>
            <source>communication is priced at %1 per rank and direction%2</source>
            <translation>rank 之间的通信按每个 rank 每个方向 %1 计价%2</translation>
        </message>
        <message>
            <source> between hosts</source>
            <translation>（主机之间）</translation>
        </message>
        <message>
            <source>every byte of the text is a token, so that %1 of the %2 tokens of model.input.vocabulary never occur</source>
            <translation>文本的每个字节是一个词元，因此 model.input.vocabulary 的 %2 个词元中有 %1 个从不出现</translation>
        </message>
        <message>
            <source>the run does not fit in memory: %1 has %2, and %3</source>
            <translation>运行放不进内存：%1 有 %2，而%3</translation>
        </message>
        <message>
            <source>its rank needs %1</source>
            <translation>它的 rank 需要 %1</translation>
        </message>
        <message>
            <source>its %1 ranks need %2</source>
            <translation>它的 %1 个 rank 需要 %2</translation>
        </message>
        <message>
            <source>was killed by signal 9 (SIGKILL), sent by a person or a program; the node was not out of memory</source>
            <translation>被信号 9（SIGKILL）终止，由人或程序发出；该节点内存并未耗尽</translation>
        </message>
        <message>
            <source>was killed by signal 9 (SIGKILL), most likely by the kernel: the node ran out of memory; it had %1 MiB resident</source>
            <translation>被信号 9 (SIGKILL) 终止，很可能是内核所为：节点内存耗尽；当时它驻留内存 %1 MiB</translation>
        </message>
        <message>
            <source>run %1 cannot be resumed</source>
            <translation>运行 %1 无法续训</translation>
        </message>
        <message>
            <source>run %1 is not resumed</source>
            <translation>运行 %1 未续训</translation>
        </message>
        <message>
            <source>it had trained to its end before it could be stopped</source>
            <translation>在能够停止它之前，它已训练结束</translation>
        </message>
        <message>
            <source>it ended before it could be stopped</source>
            <translation>在能够停止它之前，它已结束</translation>
        </message>
        <message>
            <source>it has not stopped</source>
            <translation>它尚未停止</translation>
        </message>
        <message>
            <source>resume it from its last checkpoint once it has ended</source>
            <translation>待其结束后，从其最后一个检查点续训</translation>
        </message>
        <message>
            <source>it was asked to stop, and stops with a checkpoint</source>
            <translation>已请求它停止，它将保存检查点后停止</translation>
        </message>
        <message>
            <source>resume it once it has stopped</source>
            <translation>待其停止后再续训</translation>
        </message>
        <message>
            <source>the curves and logs of run %1 are gone</source>
            <translation>运行 %1 的曲线和日志已丢失</translation>
        </message>
        <message>
            <source>run %1 cannot be launched again</source>
            <translation>运行 %1 无法再次启动</translation>
        </message>
        <message>
            <source>no name has spaces, quotes or control characters</source>
            <translation>名称中不能有空格、引号或控制字符</translation>
        </message>
        <message>
            <source>the port is a field of its own</source>
            <translation>端口是单独的字段</translation>
        </message>
        <message>
            <source>correct ssh.%1 of the node in the cluster</source>
            <translation>请更正集群中该节点的 ssh.%1</translation>
        </message>
        <message>
            <source>write host: %1 and port: %2</source>
            <translation>请写成 host: %1 和 port: %2</translation>
        </message>
        <message>
            <source>check whether the nodes of all ranks are up, then resume the run</source>
            <translation>请检查所有 rank 所在的节点是否正常，然后恢复运行</translation>
        </message>
        <message>
            <source>no longer stored</source>
            <translation>已不再保存</translation>
        </message>
        <message>
            <source>run `lockstep history check %1` to rename the file and read the run again from its nodes, or `lockstep history delete %2` to delete the run</source>
            <translation>运行 `lockstep history check %1` 以重命名该文件并从节点重新读取该运行，或运行 `lockstep history delete %2` 以删除该运行</translation>
        </message>
        <message>
            <source>close all other Lockstep programs; the next one to start renames the file and rebuilds the list of runs</source>
            <translation>请关闭其他所有 Lockstep 程序；下一个启动的程序会重命名该文件，并重建运行列表</translation>
        </message>
        <message>
            <source>wait until the run ends, or close the program that records it</source>
            <translation>请等待运行结束，或关闭正在记录它的程序</translation>
        </message>
        <message>
            <source>%1 is damaged</source>
            <translation>%1 已损坏</translation>
        </message>
        <message>
            <source>cannot check %1</source>
            <translation>无法检查 %1</translation>
        </message>
        <message>
            <source>cannot rename %1%2</source>
            <translation>无法重命名 %1%2</translation>
        </message>
        <message>
            <source>cannot rename %1</source>
            <translation>无法重命名 %1</translation>
        </message>
        <message>
            <source>the run&apos;s metadata in its history file is not valid JSON</source>
            <translation>历史文件中该运行的元数据不是有效的 JSON</translation>
        </message>
        <message>
            <source>a damaged file was renamed to %1</source>
            <translation>损坏的文件已重命名为 %1</translation>
        </message>
        <message>
            <source>cannot read the stacks of process %1</source>
            <translation>无法读取进程 %1 的调用栈</translation>
        </message>
        <message>
            <source>cannot start a process that reads stacks</source>
            <translation>无法启动读取调用栈的进程</translation>
        </message>
        <message>
            <source>PID is &quot;%1&quot;, expected the number of a process</source>
            <translation>PID 为“%1”，应为进程号</translation>
        </message>
        <message>
            <source>ranks %1</source>
            <translation>rank %1</translation>
        </message>
        <message>
            <source>%1 %2 of step %3 (number %4 of this rank)</source>
            <translation>第 %3 步的 %1 %2（该 rank 的第 %4 个集合操作）</translation>
        </message>
        <message>
            <source>%1 wait for each other</source>
            <translation>%1 互相等待</translation>
        </message>
        <message>
            <source>rank %1 has waited for %2 s in %3</source>
            <translation>rank %1 已在 %3 中等待 %2 秒</translation>
        </message>
        <message>
            <source>rank %1 holds up the other ranks</source>
            <translation>rank %1 阻塞了其他 rank</translation>
        </message>
        <message>
            <source>%1; rank %2 has waited for %3 s in %4</source>
            <translation>%1；rank %2 已在 %4 中等待 %3 秒</translation>
        </message>
        <message>
            <source>it has been in one of the steps %1 %2 to %3 of step %4 for %5 s</source>
            <translation>它停留在第 %4 步的 %1 %2 至 %3 之间的某个操作已 %5 秒</translation>
        </message>
        <message>
            <source>it has been in %1 %2 of step %3 for %4 s</source>
            <translation>它停留在第 %3 步的 %1 %2 已 %4 秒</translation>
        </message>
        <message>
            <source>it has run no plan step for %1 s, as when it reads data</source>
            <translation>它已 %1 秒没有执行计划中的步骤，例如正在读取数据</translation>
        </message>
        <message>
            <source>%1; rank %2 is in %3</source>
            <translation>%1；rank %2 停在 %3</translation>
        </message>
        <message>
            <source>it does not wait in %1, as the others do, but is in %2</source>
            <translation>它没有像其他 rank 那样在 %1 中等待，而是停在 %2</translation>
        </message>
        <message>
            <source>look at the stacks in the run&apos;s log</source>
            <translation>请查看运行日志中的调用栈</translation>
        </message>
        <message>
            <source>it reports no stall: it computes, or its process is stopped</source>
            <translation>它没有报告停顿：它在计算，或其进程已被暂停</translation>
        </message>
        <message>
            <source>the file is empty</source>
            <translation>文件是空的</translation>
        </message>
        <message>
            <source>it has nothing of the run, which was recorded</source>
            <translation>其中没有该次运行的任何内容，而该次运行是被记录过的</translation>
        </message>
        <message>
            <source>run %1 could not be restored</source>
            <translation>无法恢复运行 %1</translation>
        </message>
        <message>
            <source>run %1 could be restored only in part</source>
            <translation>运行 %1 只能恢复一部分</translation>
        </message>
        <message>
            <source>run `lockstep history check %1` to try again, or `lockstep history delete %2` to delete the run</source>
            <translation>运行 `lockstep history check %1` 再试一次，或运行 `lockstep history delete %2` 删除该次运行</translation>
        </message>
        <message>
            <source>node %1 no longer has the run</source>
            <translation>节点 %1 上已没有该次运行</translation>
        </message>
        <message>
            <source>node %1 has not sent the end of its records</source>
            <translation>节点 %1 没有送来其记录的结尾</translation>
        </message>
        <message>
            <source>node %1 has nothing of the run but its end</source>
            <translation>节点 %1 上除了该次运行的结束之外，没有它的任何内容</translation>
        </message>
        <message>
            <source>it is a link to a file that is not there</source>
            <translation>它是一个链接，所指的文件不存在</translation>
        </message>
        <message>
            <source>make that file available, or remove the link</source>
            <translation>使该文件可用，或删除该链接</translation>
        </message>
        <message>
            <source>rename the file that is there, or use another --home</source>
            <translation>请重命名那里的文件，或使用另一个 --home</translation>
        </message>
        <message>
            <source>the file is truncated</source>
            <translation>文件被截断</translation>
        </message>
        <message>
            <source>the history does not record which nodes it ran on</source>
            <translation>历史中没有它在哪些节点上运行的记录</translation>
        </message>
        <message>
            <source>the history does not have its spec and cluster</source>
            <translation>历史中没有它的规格和集群</translation>
        </message>
        <message>
            <source>make it writable, or use another --home</source>
            <translation>请使其可写，或使用另一个 --home</translation>
        </message>
        <message>
            <source>the history was lost; only the data that the run recorded was recovered</source>
            <translation>历史已丢失；只恢复了该运行记录的数据</translation>
        </message>
        <message>
            <source>ssh.%1 is &quot;%2&quot;</source>
            <translation>ssh.%1 为“%2”</translation>
        </message>
        <message>
            <source>launch it again from the start</source>
            <translation>请从头重新启动</translation>
        </message>
        <message>
            <source>The run succeeded.</source>
            <translation>运行成功。</translation>
        </message>
        <message>
            <source>The run failed.</source>
            <translation>运行失败。</translation>
        </message>
        <message>
            <source>The run was stopped.</source>
            <translation>运行已停止。</translation>
        </message>
        <message>
            <source>The run expired.</source>
            <translation>运行已过期。</translation>
        </message>
        <message>
            <source>Rank %1 on %2 is stopped; the others wait for it.</source>
            <translation>%2 上的 rank %1 已暂停；其他 rank 在等它。</translation>
        </message>
        <message>
            <source>The link from %1 to %2 sends at 1/%3 of its usual rate.</source>
            <translation>从 %1 到 %2 的链路只有通常速率的 1/%3。</translation>
        </message>
        <message>
            <source>Rank %1 on %2 takes %3× the median compute time.</source>
            <translation>%2 上的 rank %1 的计算时间是中位数的 %3 倍。</translation>
        </message>
        <message>
            <source>node %1 is not reachable now; the run goes on</source>
            <translation>节点 %1 现在无法访问；运行继续</translation>
        </message>
        <message>
            <source>rank 0 gathers at most %1 of sharded parameters and gradients at a time</source>
            <translation>rank 0 一次最多聚集 %1 的分片参数和梯度</translation>
        </message>
        <message>
            <source>stage %1 of the pipeline has no parameters: use fewer stages, or strategy placement to move layers</source>
            <translation>流水线的阶段 %1 没有参数：请减少阶段数，或用策略 placement 移动各层</translation>
        </message>
        <message>
            <source>ranks wait up to %1 % of a step for other stages: set strategy.micro_batches to %2, or use fewer stages</source>
            <translation>rank 每步最多有 %1 % 的时间在等待其他阶段：请把 strategy.micro_batches 设为 %2，或减少阶段数</translation>
        </message>
        <message>
            <source>ranks wait up to %1 % of a step for other stages: use fewer stages, or balance them with strategy placement</source>
            <translation>rank 每步最多有 %1 % 的时间在等待其他阶段：请减少阶段数，或用策略 placement 使其均衡</translation>
        </message>
        <message>
            <source>does not answer: %1</source>
            <translation>没有响应：%1</translation>
        </message>
        <message>
            <source>error Xid %1</source>
            <translation>错误 Xid %1</translation>
        </message>
        <message>
            <source>uncorrected memory errors: %1</source>
            <translation>未纠正的显存错误：%1</translation>
        </message>
        <message>
            <source>slowed down for heat</source>
            <translation>因过热而降速</translation>
        </message>
        <message>
            <source>slowed down by the power supply</source>
            <translation>因供电而降速</translation>
        </message>
        <message>
            <source>slowed down by its hardware</source>
            <translation>被硬件降速</translation>
        </message>
        <message>
            <source>held at its power limit</source>
            <translation>受功率上限限制</translation>
        </message>
        <message>
            <source>%1 of %2 PCIe lanes</source>
            <translation>PCIe 通道 %1 / %2</translation>
        </message>
        <message>
            <source>%1 of %2 NVLinks</source>
            <translation>NVLink %1 / %2</translation>
        </message>
        <message>
            <source>%1 is %2; expected %3 to %4</source>
            <translation>%1 为 %2；应在 %3 到 %4 之间</translation>
        </message>
        <message>
            <source>%1 is %2; expected %3</source>
            <translation>%1 为 %2；应为 %3</translation>
        </message>
        <message>
            <source>at least %1 and less than %2</source>
            <translation>不小于 %1 且小于 %2</translation>
        </message>
        <message>
            <source>a finite number, at least %1</source>
            <translation>不小于 %1 的有限数</translation>
        </message>
        <message>
            <source>strategy.servers is %1, and there %2; expected fewer, so that one computes</source>
            <translation>strategy.servers 为 %1，rank 总数不足（%2）；应更少，使至少一个 rank 参与计算</translation>
        </message>
        <message>
            <source>is 1 rank</source>
            <translation>只有 1 个 rank</translation>
        </message>
        <message>
            <source>cannot resolve %1</source>
            <translation>无法解析路径 %1</translation>
        </message>
        <message>
            <source>cannot use %1 for sockets</source>
            <translation>无法将 %1 用于套接字</translation>
        </message>
        <message>
            <source>cannot restrict access to %1</source>
            <translation>无法禁止他人访问 %1</translation>
        </message>
        <message>
            <source>cannot write in the workdir %1</source>
            <translation>无法写入工作目录 %1</translation>
        </message>
        <message>
            <source>it is not a folder of this user</source>
            <translation>它不是此用户的文件夹</translation>
        </message>
        <message>
            <source>remove it, or choose another workdir</source>
            <translation>请删除它，或选择另一个工作目录</translation>
        </message>
        <message>
            <source>%1 is not a run&apos;s request</source>
            <translation>%1 不是运行的请求</translation>
        </message>
        <message>
            <source>cannot start the run&apos;s supervisor</source>
            <translation>无法启动运行的监管进程</translation>
        </message>
        <message>
            <source>the socket path %1 is longer than %2 bytes</source>
            <translation>套接字路径 %1 超过 %2 字节</translation>
        </message>
        <message>
            <source>cannot create a socket</source>
            <translation>无法创建套接字</translation>
        </message>
        <message>
            <source>cannot serve at %1</source>
            <translation>无法在 %1 提供服务</translation>
        </message>
        <message>
            <source>cannot connect to %1</source>
            <translation>无法连接到 %1</translation>
        </message>
        <message>
            <source>%1 belongs to another user</source>
            <translation>%1 属于另一个用户</translation>
        </message>
        <message>
            <source>there is no NVIDIA driver: %1</source>
            <translation>没有 NVIDIA 驱动程序：%1</translation>
        </message>
        <message>
            <source>%1 has no %2</source>
            <translation>%1 没有 %2</translation>
        </message>
        <message>
            <source>cannot allocate %1 MiB</source>
            <translation>无法获得 %1 MiB</translation>
        </message>
        <message>
            <source>%1 has no device</source>
            <translation>%1 没有设备</translation>
        </message>
        <message>
            <source>&quot;%1&quot; is not a run&apos;s id</source>
            <translation>“%1”不是运行编号</translation>
        </message>
        <message>
            <source>run %1 is at generation %2 already</source>
            <translation>运行 %1 已处于第 %2 代</translation>
        </message>
        <message>
            <source>generation %1 of run %2 still exists</source>
            <translation>运行 %2 的第 %1 代仍然存在</translation>
        </message>
        <message>
            <source>run %1 has ended on this node</source>
            <translation>运行 %1 在此节点上已结束</translation>
        </message>
        <message>
            <source>the supervisor of run %1 does not answer</source>
            <translation>运行 %1 的监管进程没有应答</translation>
        </message>
        <message>
            <source>%1 differs from what was prepared</source>
            <translation>%1 与所准备的不一致</translation>
        </message>
        <message>
            <source>run folder %1 is in use</source>
            <translation>运行文件夹 %1 正在使用</translation>
        </message>
        <message>
            <source>launch it under a new id</source>
            <translation>请用新的编号启动</translation>
        </message>
        <message>
            <source>&quot;%1&quot; is not a SHA-256</source>
            <translation>“%1”不是 SHA-256</translation>
        </message>
        <message>
            <source>&quot;%1&quot; is not the name of a data file</source>
            <translation>“%1”不是数据文件的名称</translation>
        </message>
        <message>
            <source>the data file %1 has %2 bytes</source>
            <translation>数据文件 %1 有 %2 字节</translation>
        </message>
        <message>
            <source>%1 rank has no peer to exchange with</source>
            <translation>%1 个 rank 没有可交换数据的对象</translation>
        </message>
        <message>
            <source>sizes from %1 to %2 bytes, expected 4 at least</source>
            <translation>大小为 %1 到 %2 字节，应至少为 4</translation>
        </message>
        <message>
            <source>no algorithm is named &apos;%1&apos;</source>
            <translation>没有名为“%1”的算法</translation>
        </message>
        <message>
            <source>not enough memory for the benchmark&apos;s ranks</source>
            <translation>内存不足以容纳基准测试的各 rank</translation>
        </message>
        <message>
            <source>%1 ranks need %2 MiB each, %3 MiB are available</source>
            <translation>%1 个 rank 每个需要 %2 MiB，可用 %3 MiB</translation>
        </message>
        <message>
            <source>there is no benchmark of &apos;%1&apos;</source>
            <translation>没有“%1”的基准测试</translation>
        </message>
        <message>
            <source>%1 ranks cannot measure one machine&apos;s limits</source>
            <translation>%1 个 rank 无法测量一台机器的极限</translation>
        </message>
        <message>
            <source>sizes from %1 to %2, expected 4 to %3</source>
            <translation>大小为 %1 到 %2，应为 4 到 %3</translation>
        </message>
        <message>
            <source>no precision is named</source>
            <translation>没有指定精度</translation>
        </message>
        <message>
            <source>no precision is named &apos;%1&apos;</source>
            <translation>没有名为“%1”的精度</translation>
        </message>
        <message>
            <source>not enough memory for the benchmark</source>
            <translation>内存不足以进行基准测试</translation>
        </message>
        <message>
            <source>the largest size needs %1 MiB, %2 MiB are available</source>
            <translation>最大的尺寸需要 %1 MiB，可用 %2 MiB</translation>
        </message>
        <message>
            <source>a worker of %1 %2</source>
            <translation>%1 的一个工作进程%2</translation>
        </message>
        <message>
            <source>the agent is leaving</source>
            <translation>代理正在退出</translation>
        </message>
        <message>
            <source>%1 was cancelled</source>
            <translation>%1 已取消</translation>
        </message>
        <message>
            <source>%1 took longer than %2 s</source>
            <translation>%1 超过了 %2 秒</translation>
        </message>
        <message>
            <source>use fewer ranks or a smaller largest size</source>
            <translation>请减少 rank 数，或减小最大尺寸</translation>
        </message>
        <message>
            <source>use a smaller largest size</source>
            <translation>请减小最大尺寸</translation>
        </message>
        <message>
            <source>use a smaller batch, or try again when the node is less busy</source>
            <translation>请减小批次，或在节点较空闲时再试</translation>
        </message>
        <message>
            <source>the checkpoint of step %1 is not there any more</source>
            <translation>第 %1 步的检查点已不存在</translation>
        </message>
        <message>
            <source>its worker %1</source>
            <translation>其工作进程%1</translation>
        </message>
        <message>
            <source>node %1 is not part of the run</source>
            <translation>节点 %1 不属于此运行</translation>
        </message>
        <message>
            <source>its certificate is not that of %1</source>
            <translation>其证书不是 %1 的证书</translation>
        </message>
        <message>
            <source>node %1 was lost: its supervisor does not answer
%2</source>
            <translation>节点 %1 已失联：其监管进程没有应答
%2</translation>
        </message>
        <message>
            <source>node %1 does not coordinate the run</source>
            <translation>节点 %1 不是此运行的协调者</translation>
        </message>
        <message>
            <source>stop the run at its first node</source>
            <translation>请在运行的第一个节点上停止它</translation>
        </message>
        <message>
            <source>this is run %1 generation %2, not run %3 generation %4</source>
            <translation>这是运行 %1 第 %2 代，而不是运行 %3 第 %4 代</translation>
        </message>
        <message>
            <source>run %1 was prepared too long ago</source>
            <translation>运行 %1 的准备已过期</translation>
        </message>
        <message>
            <source>its last lines:
%1</source>
            <translation>其最后几行：
%1</translation>
        </message>
        <message>
            <source>%1
its last lines:
%2</source>
            <translation>%1
其最后几行：
%2</translation>
        </message>
        <message>
            <source>cannot write the spool</source>
            <translation>无法写入记录缓存</translation>
        </message>
        <message>
            <source>cannot open the spool %1</source>
            <translation>无法打开记录缓存 %1</translation>
        </message>
        <message>
            <source>cannot read the spool %1</source>
            <translation>无法读取记录缓存 %1</translation>
        </message>
        <message>
            <source>the spool %1 is damaged</source>
            <translation>记录缓存 %1 已损坏</translation>
        </message>
        <message>
            <source>its record numbers, %1 to %2, are out of range</source>
            <translation>其中的记录编号 %1 到 %2 超出范围</translation>
        </message>
        <message>
            <source>run %1 has no artifact &quot;%2&quot;</source>
            <translation>运行 %1 没有产物“%2”</translation>
        </message>
        <message>
            <source>node %1 has no %2 of run %3</source>
            <translation>节点 %1 没有运行 %3 的 %2</translation>
        </message>
        <message>
            <source>%1 became shorter while it was read</source>
            <translation>%1 在读取过程中变短了</translation>
        </message>
        <message>
            <source>the supervisor is leaving</source>
            <translation>监管进程正在退出</translation>
        </message>
        <message>
            <source>the run failed; its error was not kept</source>
            <translation>运行失败，原因没有保存下来</translation>
        </message>
        <message>
            <source>%1 has a supervisor already</source>
            <translation>%1 已有监管进程</translation>
        </message>
        <message>
            <source>its supervisor was killed, or the disk of the node&apos;s workdir is full</source>
            <translation>其监管进程被终止，或节点工作目录所在的磁盘已写满</translation>
        </message>
        <message>
            <source>a rank&apos;s facts cannot be read</source>
            <translation>无法读取某个 rank 关于自身的信息</translation>
        </message>
        <message>
            <source>the %1 of the first samples is not a number</source>
            <translation>最初几个样本的%1不是数</translation>
        </message>
        <message>
            <source>every rank finds the same</source>
            <translation>每个 rank 的结果都如此</translation>
        </message>
        <message>
            <source>look for numbers in the data that are too large, or lower model.input.scale</source>
            <translation>请检查数据中过大的数，或减小 model.input.scale</translation>
        </message>
        <message>
            <source>the node cannot compute on a GPU: %1</source>
            <translation>节点无法用 GPU 计算：%1</translation>
        </message>
        <message>
            <source>see lockstep-agent selftest --device cuda there</source>
            <translation>请在该节点上运行 lockstep-agent selftest --device cuda 查看</translation>
        </message>
        <message>
            <source>%1, or give the node devices of kind cpu</source>
            <translation>%1，或给节点指定 kind 为 cpu 的设备</translation>
        </message>
        <message>
            <source>the run has ranks on %1 GPUs of a node that has %2</source>
            <translation>运行要用该节点的 %1 块 GPU，而它有 %2 块</translation>
        </message>
        <message>
            <source>give its devices of kind cuda a count of %1 at most, or, for ranks to share them, gpus: %2</source>
            <translation>请把其 cuda 设备的 count 设为最多 %1，若要让 rank 共用，则设 gpus: %2</translation>
        </message>
        <message>
            <source>not enough memory on GPU %1 for its %2</source>
            <translation>GPU %1 的内存不足以容纳其%2</translation>
        </message>
        <message>
            <source>%1 ranks</source>
            <translation>%1 个 rank</translation>
        </message>
        <message>
            <source>%1 %2 MiB, %3 has %4 MiB</source>
            <translation>%1 %2 MiB，%3 有 %4 MiB</translation>
        </message>
        <message>
            <source>&quot;%1&quot; is not a node&apos;s name</source>
            <translation>“%1”不是节点名称</translation>
        </message>
        <message>
            <source>its hash is %1, announced was %2</source>
            <translation>其哈希值为 %1，声明的是 %2</translation>
        </message>
        <message>
            <source>no rank of the run is on node %1</source>
            <translation>节点 %1 上没有此运行的 rank</translation>
        </message>
        <message>
            <source>node %1 evaluates by one rank, and has no ranks of the run</source>
            <translation>节点 %1 用一个 rank 评估，没有此运行的 rank</translation>
        </message>
        <message>
            <source>node %1 is not the evaluator of the cluster</source>
            <translation>节点 %1 不是集群的评估节点</translation>
        </message>
        <message>
            <source>node %1 has more than %2 ranks</source>
            <translation>节点 %1 的 rank 超过 %2 个</translation>
        </message>
        <message>
            <source>rank %1 is listed twice on node %2</source>
            <translation>rank %1 在节点 %2 上列出两次</translation>
        </message>
        <message>
            <source>rank %1 is not in the plan, which has %2</source>
            <translation>rank %1 不在计划中，计划有 %2 个</translation>
        </message>
        <message>
            <source>comm &quot;in-process&quot; is for one rank: ranks are processes here</source>
            <translation>通信方式 in-process 只用于一个 rank：这里每个 rank 是一个进程</translation>
        </message>
        <message>
            <source>unknown comm &quot;%1&quot;; expected one of %2</source>
            <translation>未知的通信方式“%1”：可用的是 %2</translation>
        </message>
        <message>
            <source>only the first node of the cluster coordinates a run</source>
            <translation>由集群的第一个节点协调，其他节点不能</translation>
        </message>
        <message>
            <source>a run on several nodes needs TLS keys</source>
            <translation>多节点的运行需要为它生成密钥</translation>
        </message>
        <message>
            <source>the only node of a run coordinates it</source>
            <translation>运行只有一个节点时由它协调</translation>
        </message>
        <message>
            <source>use a smaller batch, more micro-batches, strategy.recompute, or more ranks</source>
            <translation>请减小批次、增加微批次、使用 strategy.recompute，或增加 rank</translation>
        </message>
        <message>
            <source>use comm: shm</source>
            <translation>请使用 comm: shm</translation>
        </message>
        <message>
            <source>axis %1 has %2 ranks in one node; shared memory takes at most %3</source>
            <translation>轴 %1 在一个节点中有 %2 个 rank；共享内存最多支持 %3 个</translation>
        </message>
        <message>
            <source>the supervisor is gone</source>
            <translation>监管进程已不在</translation>
        </message>
        <message>
            <source>no rank has said &quot;%1&quot; in %2 s</source>
            <translation>%2 秒内没有 rank 给出“%1”</translation>
        </message>
        <message>
            <source>check whether the nodes reach each other at their addresses</source>
            <translation>请检查节点之间能否通过各自的地址互相访问</translation>
        </message>
        <message>
            <source>one rank has no communication: use more ranks</source>
            <translation>只有一个 rank 时没有通信：请增加 rank</translation>
        </message>
        <message>
            <source>this strategy sends messages between ranks, which a barrier cannot replace</source>
            <translation>此策略的 rank 之间互发消息，不能用屏障代替</translation>
        </message>
        <message>
            <source>all-reduce %1 is made of messages, which a barrier cannot replace; set strategy.all_reduce to direct</source>
            <translation>all-reduce %1 由消息组成，不能用屏障代替；请把 strategy.all_reduce 设为 direct</translation>
        </message>
        <message>
            <source>cannot create a control channel</source>
            <translation>无法创建控制通道</translation>
        </message>
        <message>
            <source>cannot create a pipe</source>
            <translation>无法创建管道</translation>
        </message>
        <message>
            <source>cannot start the worker of rank %1</source>
            <translation>无法启动 rank %1 的工作进程</translation>
        </message>
        <message>
            <source>no time was left</source>
            <translation>没有剩余时间</translation>
        </message>
        <message>
            <source>a plan is for a batch of %1, expected %2</source>
            <translation>有一个计划的批次为 %1，应为 %2</translation>
        </message>
        <message>
            <source>%1 ranks cannot be verified in one process; at most %2 can</source>
            <translation>一个进程中无法验证 %1 个 rank；最多 %2 个</translation>
        </message>
        <message>
            <source>%1 steps verify nothing</source>
            <translation>%1 步无法验证任何内容</translation>
        </message>
        <message>
            <source>deploy this version to the node: lockstep cluster deploy</source>
            <translation>请把此版本部署到节点：lockstep cluster deploy</translation>
        </message>
        <message>
            <source>the run has not ended yet</source>
            <translation>运行尚未结束</translation>
        </message>
        <message>
            <source>the run could not be cleaned up</source>
            <translation>无法清理运行</translation>
        </message>
        <message>
            <source>%1 is not a folder</source>
            <translation>%1 不是文件夹</translation>
        </message>
        <message>
            <source>there is no home folder</source>
            <translation>没有主文件夹</translation>
        </message>
        <message>
            <source>choose another folder with --home</source>
            <translation>请用 --home 选择另一个文件夹</translation>
        </message>
        <message>
            <source>neither LOCKSTEP_HOME nor HOME is set</source>
            <translation>LOCKSTEP_HOME 和 HOME 都没有设置</translation>
        </message>
        <message>
            <source>give a folder with --home</source>
            <translation>请用 --home 指定文件夹</translation>
        </message>
        <message>
            <source>the bundle&apos;s manifest %1/manifest is damaged</source>
            <translation>代理包的清单 %1/manifest 已损坏</translation>
        </message>
        <message>
            <source>line %1: %2</source>
            <translation>第 %1 行：%2</translation>
        </message>
        <message>
            <source>make the bundle again</source>
            <translation>请重新生成代理包</translation>
        </message>
        <message>
            <source>status %1</source>
            <translation>状态 %1</translation>
        </message>
        <message>
            <source>the node&apos;s shell gives no usable answer</source>
            <translation>节点的 shell 没有给出合理的应答</translation>
        </message>
        <message>
            <source>it has no glibc (a musl system?), and %1 is needed</source>
            <translation>它没有 glibc（是 musl 系统？），而需要 %1</translation>
        </message>
        <message>
            <source>status %1: %2</source>
            <translation>状态 %1：%2</translation>
        </message>
        <message>
            <source>removing old versions</source>
            <translation>删除旧版本</translation>
        </message>
        <message>
            <source>HOME is not set</source>
            <translation>没有设置 HOME</translation>
        </message>
        <message>
            <source>cannot create the history&apos;s folder %1</source>
            <translation>无法创建历史文件夹 %1</translation>
        </message>
        <message>
            <source>run %1 is already in the history</source>
            <translation>历史中已有运行 %1</translation>
        </message>
        <message>
            <source>the history has no runs yet</source>
            <translation>历史中还没有运行</translation>
        </message>
        <message>
            <source>more than one run begins with &quot;%1&quot;</source>
            <translation>以“%1”开头的运行不止一个</translation>
        </message>
        <message>
            <source>%1 was removed</source>
            <translation>%1 已被删除</translation>
        </message>
        <message>
            <source>`lockstep history list` shows what is there</source>
            <translation>`lockstep history list` 列出现有的运行</translation>
        </message>
        <message>
            <source>`lockstep run SPEC --local 1` makes one</source>
            <translation>`lockstep run SPEC --local 1` 可创建一个</translation>
        </message>
        <message>
            <source>give more of its id; `lockstep history list` shows them</source>
            <translation>请给出更长的编号；`lockstep history list` 可列出</translation>
        </message>
        <message>
            <source>the run is not locked for recording</source>
            <translation>运行没有为记录而锁定</translation>
        </message>
        <message>
            <source>cannot create a folder for a copy of %1</source>
            <translation>无法为 %1 的副本创建文件夹</translation>
        </message>
        <message>
            <source>cannot copy %1 and its log</source>
            <translation>无法复制 %1 及其日志</translation>
        </message>
        <message>
            <source>its log cannot be merged: %1</source>
            <translation>其日志无法合并：%1</translation>
        </message>
        <message>
            <source>the data file %1 does not exist and cannot be made</source>
            <translation>数据文件 %1 不存在，也无法生成</translation>
        </message>
        <message>
            <source>the program bible is not installed</source>
            <translation>没有安装程序 bible</translation>
        </message>
        <message>
            <source>the program bible does not print the whole text</source>
            <translation>程序 bible 没有输出全文</translation>
        </message>
        <message>
            <source>install the Debian packages bible-kjv and bible-kjv-text, or set data.train.text and data.evaluate.text to another text</source>
            <translation>请安装 Debian 软件包 bible-kjv 和 bible-kjv-text，或把 data.train.text 和 data.evaluate.text 设为另一文本</translation>
        </message>
        <message>
            <source>this plan was not measured before</source>
            <translation>此计划此前没有测量过</translation>
        </message>
        <message>
            <source>cannot read the events of rank %1 in step %2</source>
            <translation>无法读取 rank %1 在第 %2 步的事件</translation>
        </message>
        <message>
            <source>the history has no events for step %1</source>
            <translation>历史记录中没有第 %1 步的事件</translation>
        </message>
        <message>
            <source>the plan has %1 ranks, but its stored prediction has %2</source>
            <translation>计划有 %1 个 rank，但随之保存的预测有 %2 个</translation>
        </message>
        <message>
            <source>the prediction kept with the run is not JSON</source>
            <translation>随运行保存的预测不是 JSON</translation>
        </message>
        <message>
            <source>launch it again from the start with `lockstep run SPEC`</source>
            <translation>请用 `lockstep run SPEC` 从头重新启动</translation>
        </message>
        <message>
            <source>the cluster has no node &quot;%1&quot;, where the run was</source>
            <translation>集群中没有运行所在的节点“%1”</translation>
        </message>
        <message>
            <source>it is still on the node, in the run&apos;s folder</source>
            <translation>它仍在节点上的运行文件夹中</translation>
        </message>
        <message>
            <source>use the cluster the run was launched on</source>
            <translation>请使用启动该运行的集群</translation>
        </message>
        <message>
            <source>look at agent.log in the workdir of that node</source>
            <translation>请查看该节点工作目录中的 agent.log</translation>
        </message>
        <message>
            <source>cannot create a certificate</source>
            <translation>无法生成证书</translation>
        </message>
        <message>
            <source>cannot write a certificate</source>
            <translation>无法写出证书</translation>
        </message>
        <message>
            <source>cannot write a key</source>
            <translation>无法写出密钥</translation>
        </message>
        <message>
            <source>cannot create a key</source>
            <translation>无法生成密钥</translation>
        </message>
        <message>
            <source>the file is %1</source>
            <translation>文件为 %1</translation>
        </message>
        <message>
            <source>expected 1</source>
            <translation>应为 1</translation>
        </message>
        <message>
            <source>%1 (did you mean &apos;%2&apos;?)</source>
            <translation>%1（是否指“%2”？）</translation>
        </message>
        <message>
            <source>it is larger than %1 MiB</source>
            <translation>它大于 %1 MiB</translation>
        </message>
        <message>
            <source>write --set training.batch=96</source>
            <translation>请写作 --set training.batch=96</translation>
        </message>
        <message>
            <source>change their counts in the cluster</source>
            <translation>请在集群中修改其数量</translation>
        </message>
        <message>
            <source>there is no item %1</source>
            <translation>没有第 %1 项</translation>
        </message>
        <message>
            <source>%1 has no fields</source>
            <translation>%1 没有字段</translation>
        </message>
        <message>
            <source>no field is named</source>
            <translation>没有指定字段</translation>
        </message>
        <message>
            <source>there is no field %1</source>
            <translation>没有字段 %1</translation>
        </message>
        <message>
            <source>%1 is text of several lines</source>
            <translation>%1 是多行文本</translation>
        </message>
        <message>
            <source>%1 is not a list</source>
            <translation>%1 不是列表</translation>
        </message>
        <message>
            <source>an item to insert is one line</source>
            <translation>要插入的项应为一行</translation>
        </message>
        <message>
            <source>the item to insert: %1, %2</source>
            <translation>要插入的项：%1，%2</translation>
        </message>
        <message>
            <source>there is no item %1 in %2</source>
            <translation>%2 中没有第 %1 项</translation>
        </message>
        <message>
            <source>there is no such item in %1</source>
            <translation>%1 中没有该项</translation>
        </message>
        <message>
            <source>edit it in the text</source>
            <translation>请在文本中编辑</translation>
        </message>
        <message>
            <source>the file has %1 bytes</source>
            <translation>文件有 %1 字节</translation>
        </message>
        <message>
            <source>this is not YAML</source>
            <translation>这不是 YAML</translation>
        </message>
        <message>
            <source>%1 did not end within %2 ms</source>
            <translation>%1 在 %2 毫秒内没有结束</translation>
        </message>
        <message>
            <source>cannot look at %1</source>
            <translation>无法查看 %1</translation>
        </message>
        <message>
            <source>%1 cannot be used for sockets</source>
            <translation>%1 无法用于套接字</translation>
        </message>
        <message>
            <source>remove it, or make it yours with mode 0700</source>
            <translation>请删除它，或使其归您所有且权限为 0700</translation>
        </message>
        <message>
            <source>it is not a folder of yours that only you can enter</source>
            <translation>它不是只有您能进入的文件夹</translation>
        </message>
        <message>
            <source>SFTP status %1</source>
            <translation>SFTP 状态 %1</translation>
        </message>
        <message>
            <source>writing %1</source>
            <translation>写入 %1</translation>
        </message>
        <message>
            <source>the SFTP subsystem does not answer as it should</source>
            <translation>SFTP 子系统的应答不正常</translation>
        </message>
        <message>
            <source>the copy was cancelled</source>
            <translation>复制已取消</translation>
        </message>
        <message>
            <source>SFTP made no progress for %1 ms</source>
            <translation>SFTP 在 %1 毫秒内没有进展</translation>
        </message>
        <message>
            <source>listing %1</source>
            <translation>列出 %1</translation>
        </message>
        <message>
            <source>check the network to the node, then connect again</source>
            <translation>请检查到该节点的网络，然后重新连接</translation>
        </message>
        <message>
            <source>permission denied for %1@%2</source>
            <translation>%1@%2 拒绝登录</translation>
        </message>
        <message>
            <source>jump host &apos;%1&apos; is not closed</source>
            <translation>跳板机“%1”的括号没有闭合</translation>
        </message>
        <message>
            <source>jump host &apos;%1&apos; has no usable port</source>
            <translation>跳板机“%1”没有可用的端口</translation>
        </message>
        <message>
            <source>jump host &apos;%1&apos; has no name</source>
            <translation>跳板机“%1”没有名称</translation>
        </message>
        <message>
            <source>the SSH configuration of %1 names no host or user</source>
            <translation>%1 的 SSH 配置没有主机或用户</translation>
        </message>
        <message>
            <source>the SSH configuration of %1 has port %2; expected 1 to 65535</source>
            <translation>%1 的 SSH 配置中端口为 %2，应为 1 到 65535</translation>
        </message>
        <message>
            <source>ssh.host is &quot;%1&quot;</source>
            <translation>ssh.host 为“%1”</translation>
        </message>
        <message>
            <source>&apos;%1&apos; is not the name of a host</source>
            <translation>“%1”不是主机名</translation>
        </message>
        <message>
            <source>correct ProxyJump in the SSH configuration</source>
            <translation>请修正 SSH 配置中的 ProxyJump</translation>
        </message>
        <message>
            <source>install openssh-client</source>
            <translation>请安装 openssh-client</translation>
        </message>
        <message>
            <source>cannot create a pair of sockets</source>
            <translation>无法创建一对套接字</translation>
        </message>
        <message>
            <source>%1 is not connected</source>
            <translation>%1 未连接</translation>
        </message>
        <message>
            <source>%1 is not connected in time</source>
            <translation>%1 没有及时连接</translation>
        </message>
        <message>
            <source>cannot listen on %1</source>
            <translation>无法监听 %1</translation>
        </message>
        <message>
            <source>the connection to %1 is closed</source>
            <translation>到 %1 的连接已关闭</translation>
        </message>
        <message>
            <source>was cancelled</source>
            <translation>已取消</translation>
        </message>
        <message>
            <source>did not end in time</source>
            <translation>没有及时结束</translation>
        </message>
        <message>
            <source>printed more than the limit</source>
            <translation>输出超过了限制</translation>
        </message>
        <message>
            <source>was cut off</source>
            <translation>被中断</translation>
        </message>
        <message>
            <source>no SSH session with %1</source>
            <translation>没有与 %1 的 SSH 会话</translation>
        </message>
        <message>
            <source>an SSH option is not accepted</source>
            <translation>有一个 SSH 选项未被接受</translation>
        </message>
        <message>
            <source>the server shows no host key</source>
            <translation>服务器没有出示主机密钥</translation>
        </message>
        <message>
            <source>if the change is known to be right: ssh-keygen -f &apos;%1&apos; -R &apos;%2&apos;</source>
            <translation>若确认此变化无误：ssh-keygen -f &apos;%1&apos; -R &apos;%2&apos;</translation>
        </message>
        <message>
            <source>it shows %1%2</source>
            <translation>它出示 %1%2</translation>
        </message>
        <message>
            <source>, and StrictHostKeyChecking is yes</source>
            <translation>，而 StrictHostKeyChecking 为 yes</translation>
        </message>
        <message>
            <source>, which was not accepted</source>
            <translation>，未被接受</translation>
        </message>
        <message>
            <source>compare it with the host&apos;s own (ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub there), then accept it: --accept-host-key %1</source>
            <translation>请与该主机自己的密钥比对（在其上运行 ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub），然后接受：--accept-host-key %1</translation>
        </message>
        <message>
            <source>the connection to %1 was closed</source>
            <translation>到 %1 的连接被关闭</translation>
        </message>
        <message>
            <source>check the port; an sshd that is overloaded answers later</source>
            <translation>请检查端口；过载的 sshd 稍后才会应答</translation>
        </message>
        <message>
            <source>the bridge to %1 ended with status %2</source>
            <translation>到 %1 的桥接以状态 %2 结束</translation>
        </message>
        <message>
            <source>threads is %1, expected at least 1</source>
            <translation>threads 为 %1，应至少为 1</translation>
        </message>
        <message>
            <source>there is no backend &quot;%1&quot;</source>
            <translation>没有后端“%1”</translation>
        </message>
        <message>
            <source>one of %1</source>
            <translation>应为 %1 之一</translation>
        </message>
        <message>
            <source>kernel %1 would need %2 blocks in y; a GPU&apos;s limit is %3</source>
            <translation>内核 %1 纵向会有 %2 个线程块，而 GPU 最多支持 %3 个</translation>
        </message>
        <message>
            <source>%1: its GPU kernel would have %2 elements; the limit is %3</source>
            <translation>%1：GPU 内核要处理 %2 个元素，而它最多处理 %3 个</translation>
        </message>
        <message>
            <source>train with a smaller batch, or more micro-batches</source>
            <translation>请减小批次，或增加微批次</translation>
        </message>
        <message>
            <source>a head has %1 channels, and its kernels take at most %2</source>
            <translation>每个头有 %1 个通道，而其内核最多支持 %2 个</translation>
        </message>
        <message>
            <source>give the model more heads, of fewer channels, or train it on devices of kind cpu</source>
            <translation>请增加头数、减少每个头的通道数，或在 kind 为 cpu 的设备上训练</translation>
        </message>
        <message>
            <source>%1: the %2 backend has no kernel for %3 in %4</source>
            <translation>%1：后端 %2 没有 %4 的 %3 内核</translation>
        </message>
        <message>
            <source>use the reference backend</source>
            <translation>请使用 reference 后端</translation>
        </message>
        <message>
            <source>nothing was written to it for %1 s</source>
            <translation>%1 秒内没有写入任何内容</translation>
        </message>
        <message>
            <source>%1 is larger than %2 bytes</source>
            <translation>%1 大于 %2 字节</translation>
        </message>
        <message>
            <source>cannot sync %1</source>
            <translation>无法同步 %1 到磁盘</translation>
        </message>
        <message>
            <source>out of memory for %1%2</source>
            <translation>内存不足以容纳 %1%2</translation>
        </message>
        <message>
            <source>node %1</source>
            <translation>节点 %1</translation>
        </message>
        <message>
            <source>rank %1</source>
            <translation>rank %1</translation>
        </message>
        <message>
            <source>step %1</source>
            <translation>第 %1 步</translation>
        </message>
        <message>
            <source>leave %1 out</source>
            <translation>去掉 %1</translation>
        </message>
        <message>
            <source>set %1 to %2</source>
            <translation>将 %1 设为 %2</translation>
        </message>
        <message>
            <source>%1 and %2</source>
            <translation>%1，并%2</translation>
        </message>
        <message>
            <source>%1, or %2</source>
            <translation>%1，或%2</translation>
        </message>
        <message>
            <source>%1 or %2</source>
            <translation>%1 或 %2</translation>
        </message>
        <message>
            <source>%1; did you mean %2?</source>
            <translation>%1；是否指 %2？</translation>
        </message>
        <message>
            <source>%1 of %2 bytes with tag %3</source>
            <translation>%2 字节的 %1（标签 %3）</translation>
        </message>
        <message>
            <source>%1 of %2 bytes</source>
            <translation>%2 字节的 %1</translation>
        </message>
        <message>
            <source>%1 on rank %2</source>
            <translation>rank %2 上的 %1</translation>
        </message>
        <message>
            <source>rank %1 takes part with %2%3</source>
            <translation>rank %1 参与的是 %2%3</translation>
        </message>
        <message>
            <source> of another type or root</source>
            <translation>（类型或根不同）</translation>
        </message>
        <message>
            <source>one of ranks %1 holds the others up</source>
            <translation>rank %1 中有一个拖住了其他 rank</translation>
        </message>
        <message>
            <source>ranks %1 and %2 issued different calls</source>
            <translation>rank %1 与 rank %2 发起了不同的调用</translation>
        </message>
        <message>
            <source>rank %1 did not answer for %2 s</source>
            <translation>rank %1 已有 %2 秒没有应答</translation>
        </message>
        <message>
            <source>rank %1 has ended: it closed its connection</source>
            <translation>rank %1 已结束：它关闭了连接</translation>
        </message>
        <message>
            <source>rank %1 has ended, or cannot be connected to</source>
            <translation>rank %1 已结束，或无法连接</translation>
        </message>
        <message>
            <source>rank %1 has ended, or cannot be connected to at %2</source>
            <translation>rank %1 已结束，或无法在 %2 连接</translation>
        </message>
        <message>
            <source>rank %1 did not answer for %2 s at %3</source>
            <translation>rank %1 在 %3 已有 %2 秒没有应答</translation>
        </message>
        <message>
            <source>connecting to rank %1</source>
            <translation>连接 rank %1</translation>
        </message>
        <message>
            <source>rank %1 failed</source>
            <translation>rank %1 失败</translation>
        </message>
        <message>
            <source>a group of %1 ranks</source>
            <translation>%1 个 rank 的组</translation>
        </message>
        <message>
            <source>a group without a name in the store</source>
            <translation>存储中没有名称的组</translation>
        </message>
        <message>
            <source>this rank was aborted</source>
            <translation>此 rank 已被中止</translation>
        </message>
        <message>
            <source>an earlier call of this group failed</source>
            <translation>此组之前的调用失败</translation>
        </message>
        <message>
            <source>a descriptor for a connection</source>
            <translation>连接的描述符</translation>
        </message>
        <message>
            <source>the send buffer of a connection</source>
            <translation>连接的发送缓冲区</translation>
        </message>
        <message>
            <source>this host limits it to %1 bytes; expected %2</source>
            <translation>此主机将其限制为 %1 字节；应为 %2</translation>
        </message>
        <message>
            <source>an unknown exception of Gloo</source>
            <translation>Gloo 的未知异常</translation>
        </message>
        <message>
            <source>raise net.core.wmem_max</source>
            <translation>请增大 net.core.wmem_max</translation>
        </message>
        <message>
            <source>key %1</source>
            <translation>键 %1</translation>
        </message>
        <message>
            <source>the list of network interfaces</source>
            <translation>网络接口列表</translation>
        </message>
        <message>
            <source>network interface %1</source>
            <translation>网络接口 %1</translation>
        </message>
        <message>
            <source>it has no address</source>
            <translation>它没有地址</translation>
        </message>
        <message>
            <source>give another `interface` or an `address`</source>
            <translation>请指定另一个 `interface` 或一个 `address`</translation>
        </message>
        <message>
            <source>give one of these as `interface`</source>
            <translation>请从中选一个作为 `interface`</translation>
        </message>
        <message>
            <source>this host has no such interface; it has %1</source>
            <translation>此主机没有该接口；它有 %1</translation>
        </message>
        <message>
            <source>address %1</source>
            <translation>地址 %1</translation>
        </message>
        <message>
            <source>give an address of this host that its peers reach</source>
            <translation>请指定此主机上其他节点能到达的地址</translation>
        </message>
        <message>
            <source>a reduction of %1 elements</source>
            <translation>对 %1 个元素的归约</translation>
        </message>
        <message>
            <source>a reduction of %1</source>
            <translation>对 %1 的归约</translation>
        </message>
        <message>
            <source>%1 cut-points for %2 ranks; expected %3</source>
            <translation>%2 个 rank 有 %1 个切分点；应为 %3</translation>
        </message>
        <message>
            <source>cut-points that descend or start below 0</source>
            <translation>切分点递减或小于 0</translation>
        </message>
        <message>
            <source>rank %1 of a group of %2</source>
            <translation>%2 个 rank 的组中的 rank %1</translation>
        </message>
        <message>
            <source>a message of rank %1 to itself</source>
            <translation>rank %1 发给自己的消息</translation>
        </message>
        <message>
            <source>a message of %1 bytes</source>
            <translation>%1 字节的消息</translation>
        </message>
        <message>
            <source>communicators reduce f32, f64, i32 and i64</source>
            <translation>通信器可归约 f32、f64、i32 和 i64</translation>
        </message>
        <message>
            <source>it announced no address within %1</source>
            <translation>它在 %1 内没有公布地址</translation>
        </message>
        <message>
            <source>it announced the address of another group or version</source>
            <translation>它公布的是另一个组或另一版本的地址</translation>
        </message>
        <message>
            <source>another program, or another rank, answered</source>
            <translation>应答的不是此组的该 rank</translation>
        </message>
        <message>
            <source>the run&apos;s keys are damaged</source>
            <translation>运行的密钥已损坏</translation>
        </message>
        <message>
            <source>the run&apos;s keys are invalid</source>
            <translation>运行的密钥无效</translation>
        </message>
        <message>
            <source>launch again</source>
            <translation>请重新启动运行</translation>
        </message>
        <message>
            <source>no network interface has the address %1</source>
            <translation>没有网络接口使用地址 %1</translation>
        </message>
        <message>
            <source>NCCL must be bound to one interface; otherwise it listens on all interfaces</source>
            <translation>NCCL 必须绑定到一个网络接口，否则会在所有接口上监听</translation>
        </message>
        <message>
            <source>set the node&apos;s `interface` in the cluster instead of its `address`</source>
            <translation>请在集群中为该节点填写 `interface`，而不是 `address`</translation>
        </message>
        <message>
            <source>the peer announced a message of %1 bytes, which does not fit the buffer</source>
            <translation>对端声明的消息有 %1 字节，与缓冲区不符</translation>
        </message>
        <message>
            <source>the peer closed the connection</source>
            <translation>对端关闭了连接</translation>
        </message>
        <message>
            <source>the peer has failed</source>
            <translation>对端已失败</translation>
        </message>
        <message>
            <source>it did not connect within %1</source>
            <translation>它在 %1 内没有连接</translation>
        </message>
        <message>
            <source>it did not answer within %1</source>
            <translation>它在 %1 内没有应答</translation>
        </message>
        <message>
            <source>joining rank %1</source>
            <translation>与 rank %1 建立连接</translation>
        </message>
        <message>
            <source>the shared segment of a group of %1 ranks</source>
            <translation>%1 个 rank 的组的共享内存段</translation>
        </message>
        <message>
            <source>rank %1 has already joined the shared segment</source>
            <translation>rank %1 在共享内存段中已有位置</translation>
        </message>
        <message>
            <source>recv of %1 bytes with tag %2 from rank %3</source>
            <translation>从 rank %3 接收 %1 字节（标签 %2）</translation>
        </message>
        <message>
            <source>rank %1 sent %2 bytes with tag %3</source>
            <translation>rank %1 发送了 %2 字节（标签 %3）</translation>
        </message>
        <message>
            <source>a group of %1 ranks in one memory; expected 1 to %2</source>
            <translation>同一内存中 %1 个 rank 的组；应为 1 到 %2</translation>
        </message>
        <message>
            <source>shared memory of a group</source>
            <translation>组的共享内存</translation>
        </message>
        <message>
            <source>the group&apos;s shared memory</source>
            <translation>组的共享内存</translation>
        </message>
        <message>
            <source>descriptor %1 as shared memory of %2 ranks</source>
            <translation>描述符 %1 作为 %2 个 rank 的共享内存</translation>
        </message>
        <message>
            <source>expected a sealed memfd of at least %1 bytes, found %2 bytes%3</source>
            <translation>应为至少 %1 字节的已封印 memfd，实为 %2 字节%3</translation>
        </message>
        <message>
            <source>, no memfd</source>
            <translation>，不是 memfd</translation>
        </message>
        <message>
            <source>mapping the group&apos;s shared memory</source>
            <translation>映射组的共享内存</translation>
        </message>
        <message>
            <source>it was opened by another version or for another number of ranks</source>
            <translation>它是由另一版本、或为另一数量的 rank 打开的</translation>
        </message>
        <message>
            <source>%1 rows do not make a table</source>
            <translation>%1 行不成为表</translation>
        </message>
        <message>
            <source>unpacking %1</source>
            <translation>解压 %1</translation>
        </message>
        <message>
            <source>the gzip stream is corrupt (%1)</source>
            <translation>gzip 数据流已损坏（%1）</translation>
        </message>
        <message>
            <source>no reason given</source>
            <translation>未给出原因</translation>
        </message>
        <message>
            <source>the gzip stream is truncated</source>
            <translation>gzip 数据流被截断</translation>
        </message>
        <message>
            <source>the data file %1 is too large</source>
            <translation>数据文件 %1 太大</translation>
        </message>
        <message>
            <source>the checkpoint at step %1 was not written; training goes on</source>
            <translation>第 %1 步的检查点未能写入；训练继续进行</translation>
        </message>
        <message>
            <source>free space on that disk, or mount it again; the next checkpoint is taken as planned</source>
            <translation>请释放该磁盘的空间，或重新挂载它；下一个检查点按计划写入</translation>
        </message>
        <message>
            <source>the run may continue on the other nodes</source>
            <translation>运行可能在其他节点上继续</translation>
        </message>
        <message>
            <source>the run's supervisors ended on all nodes</source>
            <translation>该次运行的监督进程在所有节点上都已结束</translation>
        </message>
        <message>
            <source>they were killed, or the nodes were restarted</source>
            <translation>它们被终止，或节点已重启</translation>
        </message>
        <message>
            <source>the checkpoint at step %1 was skipped</source>
            <translation>已跳过第 %1 步的检查点</translation>
        </message>
        <message>
            <source>the previous checkpoint is still being written</source>
            <translation>前一个检查点仍在写入</translation>
        </message>
        <message>
            <source>increase training.checkpoint.every_steps</source>
            <translation>请增大 training.checkpoint.every_steps</translation>
        </message>
        <message>
            <source>the training ended while it was written</source>
            <translation>写入期间训练已结束</translation>
        </message>
        <message>
            <source>the run restarts from its last checkpoint: %1</source>
            <translation>运行从最近的检查点重新开始：%1</translation>
        </message>
        <message>
            <source>the run starts its program again: %1</source>
            <translation>运行重新启动其程序：%1</translation>
        </message>
        <message>
            <source>the run starts its program again with %1 ranks on %2: %3</source>
            <translation>运行在 %2 上以 %1 个 rank 重新启动其程序：%3</translation>
        </message>
        <message>
            <source>the run trains again after %1 s</source>
            <translation>运行在 %1 s 后恢复训练</translation>
        </message>
        <message>
            <source>the run trains again after %1 s; 1 step is trained again</source>
            <translation>运行在 %1 s 后恢复训练；1 步将重新训练</translation>
        </message>
        <message>
            <source>the run trains again after %1 s; %2 steps are trained again</source>
            <translation>运行在 %1 s 后恢复训练；%2 步将重新训练</translation>
        </message>
        <message>
            <source>%1 restarts led to no step after step %2</source>
            <translation>重启 %1 次之后，第 %2 步之后仍无进展</translation>
        </message>
        <message>
            <source>the run was restarted %1 times, which %2 allows</source>
            <translation>运行已重启 %1 次，达到 %2 的上限</translation>
        </message>
        <message>
            <source>node %1 caused %2 of the last %3 failures</source>
            <translation>最近 %3 次故障中有 %2 次由节点 %1 引起</translation>
        </message>
        <message>
            <source>stopped while it recovered</source>
            <translation>在恢复期间停止</translation>
        </message>
        <message>
            <source>node %1 does not answer</source>
            <translation>节点 %1 没有响应</translation>
        </message>
        <message>
            <source>node %1 cannot coordinate the run</source>
            <translation>节点 %1 不能协调此次运行</translation>
        </message>
        <message>
            <source>node %1 at %2 refused this node</source>
            <translation>位于 %2 的节点 %1 拒绝了本节点</translation>
        </message>
        <message>
            <source>node %1, which coordinates the run, was lost</source>
            <translation>协调此次运行的节点 %1 已失联</translation>
        </message>
        <message>
            <source>check the node and its network; the run continues without its evaluations</source>
            <translation>请检查该节点及其网络；运行将继续，但没有它的评估结果</translation>
        </message>
        <message>
            <source>the spool has no records, but exceeds its limit</source>
            <translation>记录缓存中没有记录，却超出了大小限制</translation>
        </message>
        <message>
            <source>node %1 does not coordinate the run any more</source>
            <translation>节点 %1 不再协调此次运行</translation>
        </message>
        <message>
            <source>node %1 coordinates the run from now on</source>
            <translation>从现在起由节点 %1 协调此次运行</translation>
        </message>
        <message>
            <source>increase training.checkpoint.every_minutes</source>
            <translation>请增大 training.checkpoint.every_minutes</translation>
        </message>
        <message>
            <source>there is no file %1</source>
            <translation>没有文件 %1</translation>
        </message>
        <message>
            <source>node %1 does not send its files</source>
            <translation>节点 %1 没有发送其文件</translation>
        </message>
        <message>
            <source>the checkpoint at step %1 has no copy of the files of node %2</source>
            <translation>第 %1 步的检查点没有节点 %2 文件的副本</translation>
        </message>
        <message>
            <source>no node of the run has the file %1</source>
            <translation>运行的节点都没有文件 %1</translation>
        </message>
        <message>
            <source>%1 was damaged on its way from node %2</source>
            <translation>%1 在从节点 %2 传来的途中损坏</translation>
        </message>
        <message>
            <source>the run cannot continue from it if that node is lost; the next one is copied again</source>
            <translation>如果失去该节点，运行将无法从此检查点继续；下一个检查点会再次复制</translation>
        </message>
        <message>
            <source>run %1 is not served here</source>
            <translation>此处不提供运行 %1</translation>
        </message>
        <message>
            <source>node %1, in generation %2, is not part of generation %3</source>
            <translation>位于第 %2 代的节点 %1 不属于第 %3 代</translation>
        </message>
        <message>
            <source>&quot;%1&quot; is no file of a checkpoint</source>
            <translation>“%1”不是检查点的文件</translation>
        </message>
        <message>
            <source>its supervisor does not answer</source>
            <translation>其监管进程没有响应</translation>
        </message>
        <message>
            <source>heartbeats have stopped</source>
            <translation>心跳已停止</translation>
        </message>
        <message>
            <source>%1 ranks with %2 threads each; expected %3 and %4 at most</source>
            <translation>%1 个 rank，每个 %2 个线程；应分别不超过 %3 和 %4</translation>
        </message>
        <message>
            <source>check the node and its network; the run ends if the node stays silent for %1 s</source>
            <translation>请检查该节点及其网络；若该节点 %1 秒没有应答，运行将结束</translation>
        </message>
        <message>
            <source>it unpacks to more than %1 GiB</source>
            <translation>解压后超过 %1 GiB</translation>
        </message>
        <message>
            <source>it holds more than %1 GiB</source>
            <translation>其大小超过 %1 GiB</translation>
        </message>
        <message>
            <source>%1 here, %2 there</source>
            <translation>此处为 %1，彼处为 %2</translation>
        </message>
        <message>
            <source>split it</source>
            <translation>请将其拆分</translation>
        </message>
        <message>
            <source>correct the path, or put the file there</source>
            <translation>请修正路径，或把文件放到那里</translation>
        </message>
        <message>
            <source>decoded data %1</source>
            <translation>已解码的数据 %1</translation>
        </message>
        <message>
            <source>cannot map a file</source>
            <translation>无法映射文件</translation>
        </message>
        <message>
            <source>cannot open the decoded data %1</source>
            <translation>无法打开已解码的数据 %1</translation>
        </message>
        <message>
            <source>cannot read the decoded data %1</source>
            <translation>无法读取已解码的数据 %1</translation>
        </message>
        <message>
            <source>it is too short</source>
            <translation>它太短</translation>
        </message>
        <message>
            <source>its last page is not what was written</source>
            <translation>其最后一页与写入时不同</translation>
        </message>
        <message>
            <source>it has %1 bytes of elements, not %2</source>
            <translation>它有 %1 字节的元素，而不是 %2</translation>
        </message>
        <message>
            <source>it is not what was written</source>
            <translation>它与写入时不同</translation>
        </message>
        <message>
            <source>remove it: it is made again</source>
            <translation>请删除它：会重新生成</translation>
        </message>
        <message>
            <source>it is too short for an IDX header</source>
            <translation>它太短，不足以包含 IDX 头</translation>
        </message>
        <message>
            <source>it is neither an IDX file of bytes nor gzip or zstd of one: it begins with %1%2%3%4, expected 0000%5 and the number of dimensions, or 00000c01 of labels</source>
            <translation>它既不是字节型 IDX 文件，也不是其 gzip 或 zstd：它以 %1%2%3%4 开头，应为 0000%5 加维数，标签也可为 00000c01</translation>
        </message>
        <message>
            <source>dimension %1 is 0</source>
            <translation>第 %1 维为 0</translation>
        </message>
        <message>
            <source>its header declares more than %1 GiB of elements</source>
            <translation>其文件头声明的元素超过 %1 GiB</translation>
        </message>
        <message>
            <source>split it or, if it is smaller, fetch it again</source>
            <translation>请将其拆分；如果文件并没有那么大，请重新获取</translation>
        </message>
        <message>
            <source>its header declares %1 bytes of elements, %2 follow</source>
            <translation>其文件头声明有 %1 字节的元素，其后有 %2</translation>
        </message>
        <message>
            <source>its header declares %1 bytes of elements, more follow</source>
            <translation>其文件头声明有 %1 字节的元素，其后更多</translation>
        </message>
        <message>
            <source>it holds %1 elements and is used as %2, which have %3 dimension(s)</source>
            <translation>它含 %1 个元素，被指定为 %2，应有 %3 维</translation>
        </message>
        <message>
            <source>%1 labels for the %2 images of %3</source>
            <translation>%3 的 %2 幅图像对应 %1 个标签</translation>
        </message>
        <message>
            <source>record %1 has label %2; expected 0 to %3</source>
            <translation>第 %1 条记录的标签为 %2；应为 0 到 %3</translation>
        </message>
        <message>
            <source>a table of %1 numbers and %2 columns of %3 categories has nothing to read</source>
            <translation>%1 个数与 %2 列（每列 %3 类）不成为表</translation>
        </message>
        <message>
            <source>the text %1 is too short</source>
            <translation>文本 %1 太短</translation>
        </message>
        <message>
            <source>from %1 to %2 of it are %3 bytes; a sample takes %4</source>
            <translation>其 %1 至 %2 部分有 %3 字节；一个样本需要 %4</translation>
        </message>
        <message>
            <source>give a longer text, more of it, or fewer tokens in model.input.shape</source>
            <translation>请给出更长的文本、使用其更多部分，或减少 model.input.shape 中的 token 数</translation>
        </message>
        <message>
            <source>cannot allocate %1 MiB of GPU memory</source>
            <translation>无法获得 %1 MiB 的 GPU 内存</translation>
        </message>
        <message>
            <source>cannot allocate %1 MiB of pinned memory</source>
            <translation>无法获得 %1 MiB 的锁页内存</translation>
        </message>
        <message>
            <source>%1; %2 of %3 MiB of the GPU are free</source>
            <translation>%1；GPU 的 %3 MiB 中有 %2 空闲</translation>
        </message>
        <message>
            <source>the CUDA module has no kernel %1</source>
            <translation>CUDA 模块没有内核 %1</translation>
        </message>
        <message>
            <source>a collective of the ranks&apos; GPUs does not finish</source>
            <translation>各 rank 的 GPU 共同进行的操作没有结束</translation>
        </message>
        <message>
            <source>there is no progress for %1 s: a rank may be frozen</source>
            <translation>它们在 %1 秒内没有完成一步：可能有 rank 停住了</translation>
        </message>
        <message>
            <source>the GPU has not stopped in %1 s</source>
            <translation>GPU 在 %1 秒内没有停止</translation>
        </message>
        <message>
            <source>there is no GPU %1</source>
            <translation>没有 GPU %1</translation>
        </message>
        <message>
            <source>train with a smaller batch, more micro-batches, strategy.recompute, or more ranks</source>
            <translation>请减小批次、增加微批次、使用 strategy.recompute，或增加 rank</translation>
        </message>
        <message>
            <source>there is no NVIDIA driver</source>
            <translation>没有 NVIDIA 驱动程序</translation>
        </message>
        <message>
            <source>the NVIDIA driver is for CUDA %1, and Lockstep&apos;s module needs %2</source>
            <translation>NVIDIA 驱动程序支持 CUDA %1，而 Lockstep 的模块需要 %2</translation>
        </message>
        <message>
            <source>the NVIDIA driver cannot be used</source>
            <translation>无法使用 NVIDIA 驱动程序</translation>
        </message>
        <message>
            <source>the NVIDIA driver sees no GPU</source>
            <translation>NVIDIA 驱动程序没有找到 GPU</translation>
        </message>
        <message>
            <source>check nvidia-smi, CUDA_VISIBLE_DEVICES and the devices of a container</source>
            <translation>请检查 nvidia-smi、CUDA_VISIBLE_DEVICES 和容器的设备</translation>
        </message>
        <message>
            <source>the NVIDIA driver does not start</source>
            <translation>NVIDIA 驱动程序无法启动</translation>
        </message>
        <message>
            <source>check nvidia-smi and dmesg</source>
            <translation>请检查 nvidia-smi 和 dmesg</translation>
        </message>
        <message>
            <source>cuBLASLt has no product of %1×%2 by %3×%4</source>
            <translation>cuBLASLt 没有 %1×%2 乘 %3×%4 的算法</translation>
        </message>
        <message>
            <source>the GPU failed at a product of %1×%2 by %3×%4</source>
            <translation>GPU 在计算 %1×%2 乘 %3×%4 时出错</translation>
        </message>
        <message>
            <source>cuBLASLt cannot be used</source>
            <translation>无法使用 cuBLASLt</translation>
        </message>
        <message>
            <source>install the CUDA toolkit&apos;s libraries, or name their folder in LOCKSTEP_CUDA_LIBRARIES</source>
            <translation>请安装 CUDA 工具包的库，或用 LOCKSTEP_CUDA_LIBRARIES 指定其文件夹</translation>
        </message>
        <message>
            <source>no GPU is of compute capability %1.%2 or later</source>
            <translation>没有计算能力为 %1.%2 或更高的 GPU</translation>
        </message>
        <message>
            <source>there is no GPU %1 on this node</source>
            <translation>此节点上没有 GPU %1</translation>
        </message>
        <message>
            <source>it has %1</source>
            <translation>它有 %1</translation>
        </message>
        <message>
            <source>give this node at most %1 ranks (devices: count)</source>
            <translation>请给此节点最多 %1 个 rank（devices: count）</translation>
        </message>
        <message>
            <source>the GPUs of %1 ranks do not become a group</source>
            <translation>%1 个 rank 的 GPU 无法组成组</translation>
        </message>
        <message>
            <source>the GPUs of %1 of %2 ranks do not become a group</source>
            <translation>%2 个 rank 中 %1 个的 GPU 无法组成组</translation>
        </message>
        <message>
            <source>NCCL has not finished within %1 s: a rank may be frozen or unreachable</source>
            <translation>NCCL 在 %1 秒内没有结束：可能有 rank 停住或无法访问</translation>
        </message>
        <message>
            <source>NCCL says: %1</source>
            <translation>NCCL 报告：%1</translation>
        </message>
        <message>
            <source>%1 of GPUs failed</source>
            <translation>GPU 的 %1 失败</translation>
        </message>
        <message>
            <source>NCCL cannot create an id for a group of GPUs</source>
            <translation>NCCL 无法为 GPU 组创建标识</translation>
        </message>
        <message>
            <source>the unique id of NCCL&apos;s group has %1 bytes</source>
            <translation>NCCL 组的标识为 %1 字节</translation>
        </message>
        <message>
            <source>NCCL cannot be used</source>
            <translation>无法使用 NCCL</translation>
        </message>
        <message>
            <source>install NCCL, or name its folder in LOCKSTEP_CUDA_LIBRARIES</source>
            <translation>请安装 NCCL，或用 LOCKSTEP_CUDA_LIBRARIES 指定其文件夹</translation>
        </message>
        <message>
            <source>Lockstep&apos;s CUDA module cannot be used</source>
            <translation>无法使用 Lockstep 的 CUDA 模块</translation>
        </message>
        <message>
            <source>there is no %1</source>
            <translation>没有 %1</translation>
        </message>
        <message>
            <source>%1 is of another build</source>
            <translation>%1 来自另一次构建</translation>
        </message>
        <message>
            <source>this build has none: build on a machine with the CUDA toolkit to have one</source>
            <translation>此构建不含该模块：请在装有 CUDA 工具包的机器上构建</translation>
        </message>
        <message>
            <source>deploy the agent and its module together</source>
            <translation>请把代理与其模块一起部署</translation>
        </message>
        <message>
            <source>there is no function; expected %1</source>
            <translation>没有函数；应为 %1</translation>
        </message>
        <message>
            <source>it is %1, not flat; add a flatten layer before it</source>
            <translation>它是 %1，不是一维的；请在其前加一个 flatten 层</translation>
        </message>
        <message>
            <source>unknown kind</source>
            <translation>未知的种类</translation>
        </message>
        <message>
            <source>unknown activation %1; expected %2</source>
            <translation>未知的激活函数 %1；应为 %2</translation>
        </message>
        <message>
            <source>its input is %1, not flat; add a flatten layer before it</source>
            <translation>其输入是 %1，不是一维的；请在其前加一个 flatten 层</translation>
        </message>
        <message>
            <source>units is %1; expected at least 1</source>
            <translation>units 为 %1；应至少为 1</translation>
        </message>
        <message>
            <source>%1 is not an embedding of %2 units with a vocabulary of %3</source>
            <translation>%1 不是 %2 个单元、词表大小为 %3 的嵌入层</translation>
        </message>
        <message>
            <source>a tied layer has no activation; expected none</source>
            <translation>共享权重的层没有激活函数；应不设</translation>
        </message>
        <message>
            <source>the rate is %1; expected at least 0 and less than 1</source>
            <translation>rate 为 %1；应不小于 0 且小于 1</translation>
        </message>
        <message>
            <source>its input is no sequence of channels; expected an embedding before it</source>
            <translation>其输入不是通道序列；其前应有嵌入层</translation>
        </message>
        <message>
            <source>its input is ids of tokens or categories; expected an embedding before it</source>
            <translation>其输入是词元或类别的编号；其前应有嵌入层</translation>
        </message>
        <message>
            <source>its input is neither text nor categories; expected &quot;input&quot;, and input.vocabulary set, or &quot;categories&quot;, and input.columns set</source>
            <translation>其输入既不是文本也不是类别；应为 &quot;input&quot; 并设 input.vocabulary，或为 &quot;categories&quot; 并设 input.columns</translation>
        </message>
        <message>
            <source>heads is %1; expected a divisor of its %2 channels</source>
            <translation>heads 为 %1；应能整除其 %2 个通道</translation>
        </message>
        <message>
            <source>feed_forward is %1; expected at least 1, or 0 for four times its %2 channels</source>
            <translation>feed_forward 为 %1；应至少为 1，或为 0 表示其 %2 个通道的四倍</translation>
        </message>
        <message>
            <source>its input is %1; expected an image, height x width x channels</source>
            <translation>其输入是 %1；应为图像：高 x 宽 x 通道</translation>
        </message>
        <message>
            <source>filters is %1; expected at least 1</source>
            <translation>filters 为 %1；应至少为 1</translation>
        </message>
        <message>
            <source>kernel is %1; expected at least 1</source>
            <translation>kernel 为 %1；应至少为 1</translation>
        </message>
        <message>
            <source>stride is %1; expected at least 1</source>
            <translation>stride 为 %1；应至少为 1</translation>
        </message>
        <message>
            <source>kernel is %1 with padding same; expected an odd number</source>
            <translation>padding 为 same 时 kernel 为 %1；应为奇数</translation>
        </message>
        <message>
            <source>kernel is %1 but its input is %2; expected at most %3, or padding same</source>
            <translation>kernel 为 %1，但其输入为 %2；应最多为 %3，或使用 padding same</translation>
        </message>
        <message>
            <source>kernel is too large</source>
            <translation>kernel 太大</translation>
        </message>
        <message>
            <source>its weights [%1] are too large</source>
            <translation>其权重 [%1] 太大</translation>
        </message>
        <message>
            <source>size is %1 but its input is %2; expected 1 to %3</source>
            <translation>size 为 %1，但其输入为 %2；应为 1 到 %3</translation>
        </message>
        <message>
            <source>its input is text; expected a layer_norm instead, whose statistics are a token&apos;s own</source>
            <translation>其输入是文本；应改用 layer_norm，其统计只取自每个 token 自身</translation>
        </message>
        <message>
            <source>momentum is %1; expected more than 0 and less than 1</source>
            <translation>momentum 为 %1；应大于 0 且小于 1</translation>
        </message>
        <message>
            <source>epsilon is %1; expected more than 0</source>
            <translation>epsilon 为 %1；应大于 0</translation>
        </message>
        <message>
            <source>groups is %1; expected at least 1</source>
            <translation>groups 为 %1；应至少为 1</translation>
        </message>
        <message>
            <source>groups is %1; each of %2 micro-batches has statistics of its own: expected %3, or another multiple of %4</source>
            <translation>groups 为 %1；%2 个微批次各有自己的统计：应为 %3，或 %4 的其他倍数</translation>
        </message>
        <message>
            <source>groups is %1; expected a divisor of the batch, %2</source>
            <translation>groups 为 %1；应能整除批次 %2</translation>
        </message>
        <message>
            <source>its inputs are %1 and %2; expected equal shapes</source>
            <translation>其输入为 %1 和 %2；形状应相同</translation>
        </message>
        <message>
            <source>there are no layers; expected at least one</source>
            <translation>没有层；应至少有一层</translation>
        </message>
        <message>
            <source>layer %1: %2</source>
            <translation>层 %1：%2</translation>
        </message>
        <message>
            <source>its parameters [%1] are too large</source>
            <translation>其参数 [%1] 太大</translation>
        </message>
        <message>
            <source>the input has no shape; expected that of one sample, such as [28, 28, 1]</source>
            <translation>输入没有形状；应为一个样本的形状，例如 [28, 28, 1]</translation>
        </message>
        <message>
            <source>the batch is %1, expected at least 1</source>
            <translation>批次为 %1，应至少为 1</translation>
        </message>
        <message>
            <source>the input has extent %1; expected at least 1</source>
            <translation>输入的某一维为 %1；应至少为 1</translation>
        </message>
        <message>
            <source>categories is %1; expected at least 1, the number of categories of a column</source>
            <translation>categories 为 %1；应至少为 1，即一列的类别数</translation>
        </message>
        <message>
            <source>%1 columns of %2 categories are too many; expected at most %3</source>
            <translation>%1 列、每列 %2 类太多；应最多为 %3</translation>
        </message>
        <message>
            <source>the input is [%1]; expected one number of tokens, such as [64]</source>
            <translation>输入为 [%1]；应为一个 token 数，例如 [64]</translation>
        </message>
        <message>
            <source>there is no layer %1 before it; expected &quot;input&quot; or the name of a layer above%2</source>
            <translation>其前没有层 %1；应为 &quot;input&quot; 或上方某层的名称%2</translation>
        </message>
        <message>
            <source>not a name; expected letters, digits and _./+-</source>
            <translation>不是名称；应由字母、数字和 _./+- 组成</translation>
        </message>
        <message>
            <source>another layer or the input has this name; expected a name of its own</source>
            <translation>另一层或输入已用此名称；应使用自己的名称</translation>
        </message>
        <message>
            <source>%1 takes one input, not %2</source>
            <translation>%1 只接受一个输入，而不是 %2 个</translation>
        </message>
        <message>
            <source>%1 takes two inputs, not %2</source>
            <translation>%1 需要两个输入，而不是 %2 个</translation>
        </message>
        <message>
            <source>no later layer takes its output; expected it among the inputs of one, or the layer left out</source>
            <translation>后面没有层使用其输出；应把它列为某层的输入，或去掉此层</translation>
        </message>
        <message>
            <source>the last layer gives %1, not flat; expected a flatten or dense layer at the end</source>
            <translation>最后一层的输出为 %1，不是一维的；末尾应为 flatten 或 dense 层</translation>
        </message>
        <message>
            <source>the last layer gives %1 values a sample; expected 1, the logit of the label 1</source>
            <translation>最后一层每个样本输出 %1 个值；应为 1，即标签 1 的 logit</translation>
        </message>
        <message>
            <source>unknown loss %1; expected %2</source>
            <translation>未知的损失函数 %1；应为 %2</translation>
        </message>
        <message>
            <source>classes is %1; expected at least 2</source>
            <translation>classes 为 %1；应至少为 2</translation>
        </message>
        <message>
            <source>classes is %1; expected at least %2, the vocabulary: the label of a token is the next one</source>
            <translation>classes 为 %1；应至少为词表大小 %2：一个词元的标签是它的下一个词元</translation>
        </message>
        <message>
            <source>the last layer gives %1 values a sample; expected %2, the number of classes</source>
            <translation>最后一层每个样本输出 %1 个值；应为类别数 %2</translation>
        </message>
        <message>
            <source>models compute in f32 or f64, not %1</source>
            <translation>模型以 f32 或 f64 计算，而不是 %1</translation>
        </message>
        <message>
            <source>unknown all-reduce %1</source>
            <translation>未知的 all-reduce %1</translation>
        </message>
        <message>
            <source>strategy.all_reduce is one of %1</source>
            <translation>strategy.all_reduce 应为 %1 之一</translation>
        </message>
        <message>
            <source>NCCL chooses the algorithm itself</source>
            <translation>求和方式由 NCCL 选择</translation>
        </message>
        <message>
            <source>gradients on GPUs are not summed by %1</source>
            <translation>GPU 上的梯度不能用 %1 求和</translation>
        </message>
        <message>
            <source>strategy.kind is one of %1</source>
            <translation>strategy.kind 应为 %1 之一</translation>
        </message>
        <message>
            <source>strategy.overlap is &quot;%1&quot;; expected auto, always or never</source>
            <translation>strategy.overlap 为“%1”；应为 auto、always 或 never</translation>
        </message>
        <message>
            <source>strategy.gather_bytes is %1; expected at least 0</source>
            <translation>strategy.gather_bytes 为 %1；应至少为 0</translation>
        </message>
        <message>
            <source>its statistics are those of all ranks&apos; samples</source>
            <translation>其统计取自所有 rank 的样本</translation>
        </message>
        <message>
            <source>its statistics are summed rank by rank, so they depend on the number of ranks</source>
            <translation>其统计按 rank 逐个相加，因此与 rank 数有关</translation>
        </message>
        <message>
            <source>strategy %1 needs a server</source>
            <translation>策略 %1 需要服务器</translation>
        </message>
        <message>
            <source>strategy %1 has one server, not %2</source>
            <translation>策略 %1 有一个服务器，而不是 %2 个</translation>
        </message>
        <message>
            <source>strategy.compression is one of none, fp16, bf16, int8, top-k</source>
            <translation>strategy.compression 应为 none、fp16、bf16、int8、top-k 之一</translation>
        </message>
        <message>
            <source>unknown compression %1</source>
            <translation>未知的压缩方式 %1</translation>
        </message>
        <message>
            <source>strategy.top_k_ratio is more than 0 and at most 1</source>
            <translation>strategy.top_k_ratio 应大于 0 且不超过 1</translation>
        </message>
        <message>
            <source>top-k cannot send %1 of the gradients</source>
            <translation>top-k 不能发送梯度的 %1</translation>
        </message>
        <message>
            <source>with strategy.deterministic_parts every rank sums all parts of the batch, one after another</source>
            <translation>使用 strategy.deterministic_parts 时，每个 rank 依次把批次的所有部分相加</translation>
        </message>
        <message>
            <source>with strategy.deterministic_parts gradients are summed in a fixed order of equal parts</source>
            <translation>使用 strategy.deterministic_parts 时，梯度按相等部分的同一顺序相加</translation>
        </message>
        <message>
            <source>a micro-batch of %1 cannot be divided evenly over %2 ranks</source>
            <translation>%1 个样本的微批次不能平均分给 %2 个 rank</translation>
        </message>
        <message>
            <source>strategy.dense is %1; expected servers or all-reduce</source>
            <translation>strategy.dense 为 %1；应为 servers 或 all-reduce</translation>
        </message>
        <message>
            <source>strategy.stages says how many there are</source>
            <translation>阶段数由 strategy.stages 指定</translation>
        </message>
        <message>
            <source>unknown schedule %1</source>
            <translation>未知的调度 %1</translation>
        </message>
        <message>
            <source>strategy.schedule is one of %1</source>
            <translation>strategy.schedule 应为 %1 之一</translation>
        </message>
        <message>
            <source>schedule zb-h1 gains nothing from recomputed activations</source>
            <translation>调度 zb-h1 不能从重新计算激活值中获益</translation>
        </message>
        <message>
            <source>it delays the gradients of weights, for which recomputed activations must wait as well</source>
            <translation>重新计算的激活值与保留的一样，要等到计算权重梯度</translation>
        </message>
        <message>
            <source>its layers are %1</source>
            <translation>其各层为 %1</translation>
        </message>
        <message>
            <source>the checkpoint&apos;s metadata has no valid &quot;%1&quot;</source>
            <translation>检查点的元数据没有有效的“%1”</translation>
        </message>
        <message>
            <source>the ranks could not gather the state</source>
            <translation>各 rank 无法汇集状态</translation>
        </message>
        <message>
            <source>cannot create the checkpoint folder %1</source>
            <translation>无法创建检查点文件夹 %1</translation>
        </message>
        <message>
            <source>there is no checkpoint in %1</source>
            <translation>%1 中没有检查点</translation>
        </message>
        <message>
            <source>%1 has no tensor %2, which this model and optimizer need</source>
            <translation>%1 没有此模型和优化器所需的张量 %2</translation>
        </message>
        <message>
            <source>%1: tensor %2 is %3[%4], but the plan needs %5[%6]</source>
            <translation>%1：张量 %2 为 %3[%4]，而计划需要 %5[%6]</translation>
        </message>
        <message>
            <source>the checkpoint was made with batch %1, this run has %2</source>
            <translation>检查点的批次为 %1，而此运行为 %2</translation>
        </message>
        <message>
            <source>resume with training.batch=%1</source>
            <translation>请以 training.batch=%1 恢复</translation>
        </message>
        <message>
            <source>the checkpoint&apos;s metadata has no valid &quot;step&quot;</source>
            <translation>检查点的元数据没有有效的“step”</translation>
        </message>
        <message>
            <source>the checkpoint was made with seed %1, this run has %2</source>
            <translation>检查点的种子为 %1，而此运行为 %2</translation>
        </message>
        <message>
            <source>rank 0 could not read the checkpoint</source>
            <translation>rank 0 无法读取检查点</translation>
        </message>
        <message>
            <source>resume with the spec the checkpoint was made with</source>
            <translation>请用生成该检查点的规格恢复</translation>
        </message>
        <message>
            <source>%1 is a view of another dtype than its base</source>
            <translation>%1 是与其底层张量类型不同的视图</translation>
        </message>
        <message>
            <source>a checkpoint is evaluated by one rank, and the plan is of %1</source>
            <translation>检查点由一个 rank 评估，而计划有 %1 个</translation>
        </message>
        <message>
            <source>step %1 is for a group of %2 ranks along axis %3, and this rank&apos;s has %4</source>
            <translation>步骤 %1 用于沿轴 %3 的 %2 个 rank 的组，而此 rank 的组有 %4 个</translation>
        </message>
        <message>
            <source>step %1 has %2 cut-points for a group of %3 ranks</source>
            <translation>步骤 %1 对 %3 个 rank 的组有 %2 个切分点</translation>
        </message>
        <message>
            <source>%1 rows come from coordinate %2, where %3 more have room</source>
            <translation>从坐标 %2 来了 %1 行，而那里只能再容纳 %3 行</translation>
        </message>
        <message>
            <source>the plan has no program &quot;%1&quot;</source>
            <translation>计划没有程序“%1”</translation>
        </message>
        <message>
            <source>rank %1 is not in a plan for %2 ranks</source>
            <translation>rank %1 不在 %2 个 rank 的计划中</translation>
        </message>
        <message>
            <source>the plan&apos;s cut-points of program &quot;%1&quot; do not reach rank %2</source>
            <translation>计划中程序“%1”的切分点不到 rank %2</translation>
        </message>
        <message>
            <source>the data&apos;s field &quot;%1&quot; (%2[%3] a sample) does not fit the model&apos;s input %4</source>
            <translation>数据的字段“%1”（每个样本 %2[%3]）与模型的输入 %4 不符</translation>
        </message>
        <message>
            <source>tensor %1 begins at byte %2 of the data, expected %3</source>
            <translation>张量 %1 从数据的第 %2 字节开始，应为 %3</translation>
        </message>
        <message>
            <source>%1 bytes follow the last tensor</source>
            <translation>最后一个张量之后还有 %1 字节</translation>
        </message>
        <message>
            <source>it has %1 bytes of checksums, expected %2</source>
            <translation>其校验和有 %1 字节，应为 %2 字节</translation>
        </message>
        <message>
            <source>the checksums are damaged</source>
            <translation>校验和已损坏</translation>
        </message>
        <message>
            <source>the header is not JSON</source>
            <translation>文件头不是 JSON</translation>
        </message>
        <message>
            <source>__metadata__ is not an object</source>
            <translation>__metadata__ 不是对象</translation>
        </message>
        <message>
            <source>__metadata__ has a value that is not a string</source>
            <translation>__metadata__ 含有非字符串的值</translation>
        </message>
        <message>
            <source>tensor %1: %2</source>
            <translation>张量 %1：%2</translation>
        </message>
        <message>
            <source>its header does not list the checksums</source>
            <translation>其文件头没有列出校验和</translation>
        </message>
        <message>
            <source>a program of the plan has no result &quot;metrics&quot; of at least three</source>
            <translation>计划的某个程序没有至少三个值的结果 &quot;metrics&quot;</translation>
        </message>
        <message>
            <source>the plan does not say how batches are shared out</source>
            <translation>计划没有说明如何划分批次</translation>
        </message>
        <message>
            <source>%1 epochs of at most %2 steps train nothing</source>
            <translation>%1 轮、最多 %2 步不构成训练</translation>
        </message>
        <message>
            <source>the verification was cancelled</source>
            <translation>验证已取消</translation>
        </message>
        <message>
            <source>another node is named %1; expected a name of its own</source>
            <translation>另一个节点也叫 %1；应使用自己的名称</translation>
        </message>
        <message>
            <source>address and interface are both given; expected one</source>
            <translation>同时给出了 address 和 interface；应只有一个</translation>
        </message>
        <message>
            <source>comm is nccl but parameter servers exchange through the host; expected shm or gloo</source>
            <translation>通信方式为 nccl，但参数服务器经主机交换数据；应为 shm 或 gloo</translation>
        </message>
        <message>
            <source>comm is nccl but node %1 has ranks on processors; expected shm or gloo, or devices of kind cuda alone</source>
            <translation>通信方式为 nccl，但节点 %1 有处理器上的 rank；应为 shm 或 gloo，或只用 kind 为 cuda 的设备</translation>
        </message>
        <message>
            <source>comm is nccl but ranks share GPU %1 of node %2; expected shm or gloo, or a GPU for each rank</source>
            <translation>通信方式为 nccl，但有 rank 共用节点 %2 的 GPU %1；应为 shm 或 gloo，或每个 rank 一块 GPU</translation>
        </message>
        <message>
            <source>comm is in-process but there are several nodes; expected gloo</source>
            <translation>通信方式为 in-process，但有多个节点；应为 gloo</translation>
        </message>
        <message>
            <source>comm is shm but the nodes are on several hosts; expected gloo</source>
            <translation>通信方式为 shm，但节点在多台主机上；应为 gloo</translation>
        </message>
        <message>
            <source>there is no node %1; expected the name of one</source>
            <translation>没有节点 %1；应为某个节点的名称</translation>
        </message>
        <message>
            <source>there are no nodes; expected at least one</source>
            <translation>没有节点；应至少有一个</translation>
        </message>
        <message>
            <source>no node has the role worker; expected at least one</source>
            <translation>没有节点担任 worker；应至少有一个</translation>
        </message>
        <message>
            <source>there are more than %1 ranks</source>
            <translation>rank 超过 %1 个</translation>
        </message>
        <message>
            <source>kind is cuda, which has no fp64; expected cpu, or training.precision fp32, tf32, bf16 or fp16</source>
            <translation>kind 为 cuda，不支持 fp64；应为 cpu，或把 training.precision 设为 fp32、tf32、bf16 或 fp16</translation>
        </message>
        <message>
            <source>%1 is &quot;%2&quot;; expected %3</source>
            <translation>%1 为“%2”；应为 %3</translation>
        </message>
        <message>
            <source>the layer has no kind; expected dense, conv2d, max_pool2d, flatten, activation, add, embedding, layer_norm, transformer, batch_norm, global_average_pool, concat or dropout</source>
            <translation>该层没有种类；应为 dense、conv2d、max_pool2d、flatten、activation、add、embedding、layer_norm、transformer、batch_norm、global_average_pool、concat 或 dropout</translation>
        </message>
        <message>
            <source>only tables have columns of categories; expected none, or the shape [numbers]</source>
            <translation>只有表才有类别列；应不设，或形状为 [数值个数]</translation>
        </message>
        <message>
            <source>vocabulary is %1; expected at least 256: every byte of the text is a token</source>
            <translation>vocabulary 为 %1；应至少为 256：文本的每个字节是一个 token</translation>
        </message>
        <message>
            <source>scale is not finite; expected a number such as 0.0039</source>
            <translation>scale 不是有限数；应为如 0.0039 的数</translation>
        </message>
        <message>
            <source>there are %1 layers; expected at most %2</source>
            <translation>有 %1 层；应最多为 %2</translation>
        </message>
        <message>
            <source>%1 is not used with %2 %3; expected it left out, or %4 %5</source>
            <translation>%1 与 %2 %3 同用时不起作用；应去掉它，或用 %4 %5</translation>
        </message>
        <message>
            <source>not a SHA-256; expected 64 digits of 0-9 and a-f</source>
            <translation>不是 SHA-256；应为 64 个 0-9、a-f 的数字</translation>
        </message>
        <message>
            <source>%1 is missing; expected the path of a %2 file</source>
            <translation>缺少 %1；应为 %2 文件的路径</translation>
        </message>
        <message>
            <source>%1.to is %2; expected more than %3.from, %4, and at most 1</source>
            <translation>%1.to 为 %2；应大于 %3.from（%4）且不超过 1</translation>
        </message>
        <message>
            <source>images is missing; expected the path of an IDX file</source>
            <translation>缺少 images；应为 IDX 文件的路径</translation>
        </message>
        <message>
            <source>labels is missing; expected the path of an IDX file</source>
            <translation>缺少 labels；应为 IDX 文件的路径</translation>
        </message>
        <message>
            <source>the model takes rows of numbers; expected format table</source>
            <translation>模型的输入是数值行；格式应为 table</translation>
        </message>
        <message>
            <source>only images are augmented; expected it left out</source>
            <translation>只有图像可做数据增强；应去掉它</translation>
        </message>
        <message>
            <source>backend %1 has no fp64; expected reference, or precision fp32</source>
            <translation>后端 %1 不支持 fp64；应为 reference，或精度 fp32</translation>
        </message>
        <message>
            <source>%1 is %2; expected more than 0 and at most %3</source>
            <translation>%1 为 %2；应大于 0 且不超过 %3</translation>
        </message>
        <message>
            <source>model.loss is mse but the labels of idx are classes; expected cross-entropy</source>
            <translation>model.loss 为 mse，但 idx 的标签是类别；应为 cross-entropy</translation>
        </message>
        <message>
            <source>model.loss is %1 but the labels of a text are tokens; expected cross-entropy</source>
            <translation>model.loss 为 %1，但文本的标签是词元；应为 cross-entropy</translation>
        </message>
        <message>
            <source>the last layer gives %1 values a sample; expected 1, as a row of a table has one label</source>
            <translation>最后一层每个样本输出 %1 个值；应为 1，因为表格的一行只有一个标签</translation>
        </message>
        <message>
            <source>strategy.deterministic_parts is %1, and the batch is divided over %2 ranks; expected a multiple of %3</source>
            <translation>strategy.deterministic_parts 为 %1，而批次分给 %2 个 rank；应为 %3 的倍数</translation>
        </message>
        <message>
            <source>are %1 ranks</source>
            <translation>有 %1 个 rank</translation>
        </message>
        <message>
            <source>strategy.tensor is %1; expected a divisor of the %2 ranks</source>
            <translation>strategy.tensor 为 %1；应能整除 %2 个 rank</translation>
        </message>
        <message>
            <source>strategy.stages is %1; expected a divisor of %2</source>
            <translation>strategy.stages 为 %1；应能整除%2</translation>
        </message>
        <message>
            <source>%1, the %2 ranks divided by strategy.tensor, %3</source>
            <translation> %1（%2 个 rank 除以 strategy.tensor，即 %3）</translation>
        </message>
        <message>
            <source>the %1 ranks</source>
            <translation> %1 个 rank</translation>
        </message>
        <message>
            <source>the costs could not be measured</source>
            <translation>无法测量开销</translation>
        </message>
        <message>
            <source>save it under another name</source>
            <translation>请用另一个名称保存</translation>
        </message>
        <message>
            <source>save the text, or close its tab</source>
            <translation>请保存文本，或关闭其标签页</translation>
        </message>
        <message>
            <source>%1 is open in another tab</source>
            <translation>%1 已在另一个标签页中打开</translation>
        </message>
        <message>
            <source>close that tab first, or save it under another name</source>
            <translation>请先关闭那个标签页，或用另一个名称保存</translation>
        </message>
        <message>
            <source>%1: %2</source>
            <translation>%1：%2</translation>
        </message>
        <message>
            <source>%1 (%2)</source>
            <translation>%1（%2）</translation>
        </message>
        <message>
            <source>%1
(%2)</source>
            <translation>%1
（%2）</translation>
        </message>
        <message>
            <source>%1, %2</source>
            <translation>%1，%2</translation>
        </message>
        <message>
            <source>%1; %2</source>
            <translation>%1；%2</translation>
        </message>
        <message>
            <source> in %1</source>
            <translation>（在 %1 中）</translation>
        </message>
        <message>
            <source>the rank needs</source>
            <translation>该 rank 需要</translation>
        </message>
        <message>
            <source>they need</source>
            <translation>它们需要</translation>
        </message>
        <message>
            <source>rank</source>
            <translation>rank</translation>
        </message>
        <message>
            <source>labels</source>
            <translation>标签</translation>
        </message>
        <message>
            <source>images</source>
            <translation>图像</translation>
        </message>
        <message>
            <source>did not start</source>
            <translation>没有启动</translation>
        </message>
        <message>
            <source>does not answer</source>
            <translation>没有应答</translation>
        </message>
        <message>
            <source>the run&apos;s supervisor %1</source>
            <translation>运行的监管进程%1</translation>
        </message>
        <message>
            <source>put it in quotes, or write --set %1= to leave the field out</source>
            <translation>请给它加引号，或写 --set %1= 以去掉该字段</translation>
        </message>
        <message>
            <source>expected 0 to %1</source>
            <translation>应为 0 到 %1</translation>
        </message>
        <message>
            <source>a tag (%1)</source>
            <translation>标签（%1）</translation>
        </message>
        <message>
            <source>&apos;%1&apos; is given twice</source>
            <translation>“%1”给出了两次</translation>
        </message>
        <message>
            <source>expected it once (first in line %1)</source>
            <translation>应只有一次（首次在第 %1 行）</translation>
        </message>
        <message>
            <source>%1 (not used: others can read it; chmod 600)</source>
            <translation>%1（未使用：他人可读；请 chmod 600）</translation>
        </message>
        <message>
            <source>agent (no answer)</source>
            <translation>代理（无应答）</translation>
        </message>
        <message>
            <source>agent (1 key)</source>
            <translation>代理（1 个密钥）</translation>
        </message>
        <message>
            <source>agent (%1 keys)</source>
            <translation>代理（%1 个密钥）</translation>
        </message>
        <message>
            <source>keyboard-interactive (no answer)</source>
            <translation>键盘交互（无应答）</translation>
        </message>
        <message>
            <source>password (not given)</source>
            <translation>密码（未提供）</translation>
        </message>
        <message>
            <source>%1 (cannot be read as a private key)</source>
            <translation>%1（无法作为私钥读取）</translation>
        </message>
        <message>
            <source>%1 (needs its passphrase)</source>
            <translation>%1（需要其口令）</translation>
        </message>
        <message>
            <source>%1 (wrong passphrase)</source>
            <translation>%1（口令错误）</translation>
        </message>
        <message>
            <source>nothing (%1 is absent)</source>
            <translation>没有（%1 不存在）</translation>
        </message>
        <message>
            <source>nothing</source>
            <translation>没有</translation>
        </message>
        <message>
            <source>the content of %1</source>
            <translation>%1 的内容</translation>
        </message>
        <message>
            <source>the data file %1</source>
            <translation>数据文件 %1</translation>
        </message>
        <message>
            <source>%1 batches of samples</source>
            <translation>%1 个样本批次</translation>
        </message>
        <message>
            <source>the rows of %1</source>
            <translation>%1 的行</translation>
        </message>
        <message>
            <source>; did you mean %1?</source>
            <translation>；是否指 %1？</translation>
        </message>
        <message>
            <source>unknown dtype %1</source>
            <translation>未知的数据类型 %1</translation>
        </message>
        <message>
            <source>the tensors of %1</source>
            <translation>%1 的张量</translation>
        </message>
        <message>
            <source>driver %1 sees no GPU</source>
            <translation>驱动程序 %1 没有找到 GPU</translation>
        </message>
        <message>
            <source>it connects, and says nothing in %1 s</source>
            <translation>可以连接，但 %1 秒内没有任何应答</translation>
        </message>
        <message>
            <source>connecting to rank %1 at %2</source>
            <translation>连接位于 %2 的 rank %1</translation>
        </message>
        <message>
            <source>rank %1 left the group</source>
            <translation>rank %1 离开了组</translation>
        </message>
        <message>
            <source>rank %1 (process %2) has ended</source>
            <translation>rank %1（进程 %2）已结束</translation>
        </message>
        <message>
            <source>rank %1 did not join the group within %2 s</source>
            <translation>rank %1 在 %2 秒内没有加入组</translation>
        </message>
        <message>
            <source>rank %1 (process %2) did not answer for %3 s</source>
            <translation>rank %1（进程 %2）已有 %3 秒没有应答</translation>
        </message>
        <message>
            <source>too many targets</source>
            <translation>目标太多</translation>
        </message>
        <message>
            <source>reached, but not by every node</source>
            <translation>可以到达，但并非每个节点都能</translation>
        </message>
        <message>
            <source>the messages of %1 ranks</source>
            <translation>%1 个 rank 的消息</translation>
        </message>
        <message>
            <source>the alert command %1 failed</source>
            <translation>告警命令 %1 失败</translation>
        </message>
        <message>
            <source>it ended with status %1</source>
            <translation>它以状态 %1 结束</translation>
        </message>
        <message>
            <source>it ended with status %1: %2</source>
            <translation>它以状态 %1 结束：%2</translation>
        </message>
        <message>
            <source>alerts come faster than their actions are performed</source>
            <translation>告警产生得比其动作执行得快</translation>
        </message>
        <message>
            <source>see actions.command of the alert rules</source>
            <translation>请查看告警规则的 actions.command</translation>
        </message>
        <message>
            <source>a map, expected a value</source>
            <translation>这是映射，应为一个值</translation>
        </message>
        <message>
            <source>a list, expected a value</source>
            <translation>这是列表，应为一个值</translation>
        </message>
        <message>
            <source>no map, expected 'name: value'</source>
            <translation>不是映射，应为“名称: 值”</translation>
        </message>
        <message>
            <source>there is no field '%1', expected %2</source>
            <translation>没有字段“%1”，应为 %2</translation>
        </message>
        <message>
            <source>Loss not finite</source>
            <translation>损失不是有限值</translation>
        </message>
        <message>
            <source>The loss is NaN or infinite, or the training diverged.</source>
            <translation>损失为 NaN 或无穷大，或者训练发散。</translation>
        </message>
        <message>
            <source>Loss spike</source>
            <translation>损失尖峰</translation>
        </message>
        <message>
            <source>The loss is this many median absolute deviations above the median of the window, for a number of steps.</source>
            <translation>损失比窗口内的中位数高出这么多倍的绝对中位差，并持续若干步。</translation>
        </message>
        <message>
            <source>Loss plateau</source>
            <translation>损失停滞</translation>
        </message>
        <message>
            <source>The smoothed loss has not improved by this much within the window.</source>
            <translation>平滑后的损失在窗口内没有改善这么多。</translation>
        </message>
        <message>
            <source>Stall</source>
            <translation>停顿</translation>
        </message>
        <message>
            <source>No step has completed for this many median steps, and for at least a number of seconds.</source>
            <translation>在这么多倍的中位步时内，且至少在若干秒内，没有完成任何一步。</translation>
        </message>
        <message>
            <source>Straggler</source>
            <translation>拖后腿的 rank</translation>
        </message>
        <message>
            <source>One rank makes the others wait for this share of the step.</source>
            <translation>一个 rank 让其他 rank 等待的时间占一步的这个比例。</translation>
        </message>
        <message>
            <source>Node unreachable</source>
            <translation>节点无法访问</translation>
        </message>
        <message>
            <source>A node of the run does not answer.</source>
            <translation>运行的一个节点没有响应。</translation>
        </message>
        <message>
            <source>GPU throttled</source>
            <translation>GPU 降频</translation>
        </message>
        <message>
            <source>A GPU was slowed down for heat, by its power supply or by its hardware for this share of the window. Its power limit does not count.</source>
            <translation>GPU 在窗口的这个比例内因过热、供电或硬件而降速。功率上限不计。</translation>
        </message>
        <message>
            <source>GPU temperature</source>
            <translation>GPU 温度</translation>
        </message>
        <message>
            <source>A GPU is at least this hot.</source>
            <translation>GPU 至少达到这个温度。</translation>
        </message>
        <message>
            <source>Disk space</source>
            <translation>磁盘空间</translation>
        </message>
        <message>
            <source>The disk of a node's data folder has less free space than this.</source>
            <translation>节点数据文件夹所在磁盘的可用空间少于此值。</translation>
        </message>
        <message>
            <source>Node memory</source>
            <translation>节点内存</translation>
        </message>
        <message>
            <source>At least this share of a node's memory is used.</source>
            <translation>节点内存的使用率至少达到此值。</translation>
        </message>
        <message>
            <source>Run ended</source>
            <translation>运行结束</translation>
        </message>
        <message>
            <source>The run has succeeded, failed or was stopped.</source>
            <translation>运行成功、失败或被停止。</translation>
        </message>
        <message>
            <source>'%1' is no value, expected %2</source>
            <translation>“%1”不是有效的值，应为 %2</translation>
        </message>
        <message>
            <source>there is no action '%1', expected %2</source>
            <translation>没有动作“%1”，应为 %2</translation>
        </message>
        <message>
            <source>there is no alert rule '%1', expected %2</source>
            <translation>没有告警规则“%1”，应为 %2</translation>
        </message>
        <message>
            <source>'%1' is no option, expected RULE.FIELD</source>
            <translation>“%1”不是选项，应为 RULE.FIELD</translation>
        </message>
        <message>
            <source>'%1' is no whole number from %2 to %3 %4</source>
            <translation>“%1”不是 %2 到 %3 %4 之间的整数</translation>
        </message>
        <message>
            <source>'%1' is no number from %2 to %3 %4</source>
            <translation>“%1”不是 %2 到 %3 %4 之间的数</translation>
        </message>
        <message>
            <source>the command is not one line</source>
            <translation>命令不是一行</translation>
        </message>
        <message>
            <source>the command has no closing quote</source>
            <translation>命令缺少右引号</translation>
        </message>
        <message>
            <source>the command names no program</source>
            <translation>命令没有指定程序</translation>
        </message>
        <message>
            <source>the webhook is no URL, expected https://HOST/PATH</source>
            <translation>webhook 不是 URL，应为 https://HOST/PATH</translation>
        </message>
        <message>
            <source>This is a test of the alert rule %1.</source>
            <translation>这是对告警规则 %1 的测试。</translation>
        </message>
        <message>
            <source>The loss is not finite in step %1.</source>
            <translation>第 %1 步的损失不是有限值。</translation>
        </message>
        <message>
            <source>The loss %1 in step %2 is %3 × MAD above the median %4.</source>
            <translation>第 %2 步的损失 %1 比中位数 %4 高 %3 × MAD。</translation>
        </message>
        <message>
            <source>The loss has not improved by %1 % in %2 steps.</source>
            <translation>损失在 %2 步内没有改善 %1 %。</translation>
        </message>
        <message>
            <source>%1 has %2 GiB of free disk space.</source>
            <translation>%1 的可用磁盘空间为 %2 GiB。</translation>
        </message>
        <message>
            <source>%1 uses %2 % of its memory.</source>
            <translation>%1 使用了其内存的 %2 %。</translation>
        </message>
        <message>
            <source>GPU %1 of %2 has %3 °C.</source>
            <translation>%2 的 GPU %1 温度为 %3 °C。</translation>
        </message>
        <message>
            <source>GPU %1 of %2 was slowed down %3 % of the last %4 s.</source>
            <translation>%2 的 GPU %1 在最近 %4 秒的 %3 % 内被降速。</translation>
        </message>
        <message>
            <source>No step has completed for %1 s.</source>
            <translation>已有 %1 秒没有完成任何一步。</translation>
        </message>
        <message>
            <source>the webhook %1 was not called</source>
            <translation>没有成功调用 webhook %1</translation>
        </message>
        <message>
            <source>the server did not answer within %1 s</source>
            <translation>服务器在 %1 秒内没有响应</translation>
        </message>
        <message>
            <source>the server answered with status %1</source>
            <translation>服务器返回状态 %1</translation>
        </message>
        <message>
            <source>see actions.webhook of the alert rules</source>
            <translation>请查看告警规则的 actions.webhook</translation>
        </message>
        <message>
            <source>libcurl cannot be used</source>
            <translation>无法使用 libcurl</translation>
        </message>
        <message>
            <source>the call was cancelled</source>
            <translation>调用已取消</translation>
        </message>
        <message>
            <source>cannot pass on the input</source>
            <translation>无法传递输入</translation>
        </message>
        <message>
            <source>steps</source>
            <translation>步</translation>
        </message>
        <message>
            <source>s</source>
            <translation>秒</translation>
        </message>
        <message>
            <source>× MAD</source>
            <translation>× MAD</translation>
        </message>
        <message>
            <source>× median step</source>
            <translation>× 中位步时</translation>
        </message>
        <message>
            <source>a curve is damaged</source>
            <translation>一条曲线已损坏</translation>
        </message>
        <message>
            <source>%1 is not a link to a place in the studio</source>
            <translation>%1 不是指向工作室中某处的链接</translation>
        </message>
        <message>
            <source>copy a link with View → Copy link to this place</source>
            <translation>用“视图 → 复制此处的链接”复制一个链接</translation>
        </message>
        <message>
            <source>the dashboard %1 in the settings is damaged</source>
            <translation>设置中的仪表板 %1 已损坏</translation>
        </message>
        <message>
            <source>some of its plots cannot be read</source>
            <translation>其中一些图无法读取</translation>
        </message>
        <message>
            <source>none of it can be read</source>
            <translation>全部无法读取</translation>
        </message>
        <message>
            <source>check its plots</source>
            <translation>请检查它的图</translation>
        </message>
        <message>
            <source>remove it, or add its plots again</source>
            <translation>请将它移除，或重新添加它的图</translation>
        </message>
        <message>
            <source>there is no saved filter &quot;%1&quot;</source>
            <translation>没有已保存的筛选条件“%1”</translation>
        </message>
        <message>
            <source>`lockstep history filter` lists them</source>
            <translation>用 `lockstep history filter` 列出</translation>
        </message>
        <message>
            <source>there is no state &quot;%1&quot;</source>
            <translation>没有状态“%1”</translation>
        </message>
        <message>
            <source>a state is %1</source>
            <translation>状态为 %1</translation>
        </message>
        <message>
            <source>the filter is too long</source>
            <translation>筛选条件太长</translation>
        </message>
        <message>
            <source>the filter has a control character</source>
            <translation>筛选条件中有控制字符</translation>
        </message>
        <message>
            <source>the filter has too many words</source>
            <translation>筛选条件中的词太多</translation>
        </message>
        <message>
            <source>a quote is not closed: %1</source>
            <translation>引号没有闭合：%1</translation>
        </message>
        <message>
            <source>add the closing quote</source>
            <translation>补上右引号</translation>
        </message>
        <message>
            <source>the filter has empty quotes</source>
            <translation>筛选条件中有空引号</translation>
        </message>
        <message>
            <source>a filter has no &quot;%1:&quot;</source>
            <translation>筛选条件没有“%1:”</translation>
        </message>
        <message>
            <source>a key is %1; put text that has a colon in quotes</source>
            <translation>可用的键为 %1；含冒号的文字请加引号</translation>
        </message>
        <message>
            <source>&quot;%1:&quot; has no value</source>
            <translation>“%1:”没有值</translation>
        </message>
        <message>
            <source>write it after the colon, without a space: %1:x</source>
            <translation>写在冒号之后，不加空格：%1:x</translation>
        </message>
        <message>
            <source>&quot;%1:&quot; takes one time</source>
            <translation>“%1:”只接受一个时间</translation>
        </message>
        <message>
            <source>&quot;%1&quot; is not a date or an age</source>
            <translation>“%1”不是日期，也不是时长</translation>
        </message>
        <message>
            <source>write %1:2026-11-01, %2:2026-11-01T12:30, %3:today or %4:7d</source>
            <translation>写成 %1:2026-11-01、%2:2026-11-01T12:30、%3:today 或 %4:7d</translation>
        </message>
        <message>
            <source>%1:%2 has more than %3 stars</source>
            <translation>%1:%2 中的星号多于 %3 个</translation>
        </message>
        <message>
            <source>a tag cannot be &quot;%1&quot;</source>
            <translation>标签不能是“%1”</translation>
        </message>
        <message>
            <source>the name of a filter cannot be &quot;%1&quot;</source>
            <translation>筛选条件的名称不能是“%1”</translation>
        </message>
        <message>
            <source>&quot;%1&quot; does not say what to do with a tag</source>
            <translation>“%1”没有说明如何处理标签</translation>
        </message>
        <message>
            <source>write +%1 to add it, -%2 to remove it</source>
            <translation>写 +%1 以添加，-%2 以移除</translation>
        </message>
        <message>
            <source>run %1 would have more than %2 tags</source>
            <translation>运行 %1 的标签将多于 %2 个</translation>
        </message>
        <message>
            <source>it is empty</source>
            <translation>它是空的</translation>
        </message>
        <message>
            <source>it is longer than %1 bytes</source>
            <translation>它长于 %1 字节</translation>
        </message>
        <message>
            <source>it has a control character</source>
            <translation>其中有控制字符</translation>
        </message>
        <message>
            <source>it is not UTF-8</source>
            <translation>它不是 UTF-8</translation>
        </message>
        <message>
            <source>it begins with + or -</source>
            <translation>它以 + 或 - 开头</translation>
        </message>
        <message>
            <source>it has a quote, a star or a backslash</source>
            <translation>其中有引号、星号或反斜杠</translation>
        </message>
        <message>
            <source>it has a space or a comma</source>
            <translation>其中有空格或逗号</translation>
        </message>
        <message>
            <source>run %1 has no curve &quot;%2&quot;</source>
            <translation>运行 %1 没有曲线“%2”</translation>
        </message>
        <message>
            <source>`lockstep history show %1 --json` lists its curves</source>
            <translation>用 `lockstep history show %1 --json` 列出其曲线</translation>
        </message>
        <message>
            <source>did you mean %1?</source>
            <translation>是否指 %1？</translation>
        </message>
        <message>
            <source>run %1 cannot be shown over time</source>
            <translation>运行 %1 无法以时间为横轴显示</translation>
        </message>
        <message>
            <source>run %1 cannot be shown over samples</source>
            <translation>运行 %1 无法以样本数为横轴显示</translation>
        </message>
        <message>
            <source>run %1 cannot be shown over tokens</source>
            <translation>运行 %1 无法以 token 数为横轴显示</translation>
        </message>
        <message>
            <source>the times of its steps are not recorded</source>
            <translation>没有记录其各步的时间</translation>
        </message>
        <message>
            <source>its data is not text</source>
            <translation>其数据不是文本</translation>
        </message>
        <message>
            <source>its batch is not known</source>
            <translation>其批大小未知</translation>
        </message>
        <message>
            <source>there is no axis &quot;%1&quot;</source>
            <translation>没有横轴“%1”</translation>
        </message>
        <message>
            <source>an axis is %1</source>
            <translation>横轴为 %1</translation>
        </message>
        <message>
            <source>a picture cannot be written to %1</source>
            <translation>无法将图片写入 %1</translation>
        </message>
        <message>
            <source>its name does not end in .png, .svg or .pdf</source>
            <translation>其名称不以 .png、.svg 或 .pdf 结尾</translation>
        </message>
        <message>
            <source>it ends after %1 bytes, and a sample ends at %2</source>
            <translation>文件在第 %1 字节处结束，而样本应到第 %2 字节</translation>
        </message>
        <message>
            <source>the samples of %1 are too large</source>
            <translation>%1 的样本过大</translation>
        </message>
        <message>
            <source>one has %1 bytes; at most %2 MiB are shown</source>
            <translation>单个样本有 %1 字节；最多显示 %2 MiB</translation>
        </message>
        <message>
            <source>line %1 is longer than %2 bytes</source>
            <translation>第 %1 行超过 %2 字节</translation>
        </message>
        <message>
            <source>it has changed while it was read</source>
            <translation>读取期间文件发生了变化</translation>
        </message>
        <message>
            <source>a sample of %1 tokens has nothing to read</source>
            <translation>含 %1 个词元的样本没有可读内容</translation>
        </message>
        <message>
            <source>give a table: a row a line</source>
            <translation>请提供表格：每行一条记录</translation>
        </message>
        <message>
            <source>cannot start %1</source>
            <translation>无法启动 %1</translation>
        </message>
        <message>
            <source>the rank's worker has ended</source>
            <translation>该 rank 的工作进程已结束</translation>
        </message>
        <message>
            <source>curves of run %1 are damaged</source>
            <translation>运行 %1 的曲线已损坏</translation>
        </message>
        <message>
            <source>what could be read was exported</source>
            <translation>能读取的部分已导出</translation>
        </message>
        <message>
            <source>run `lockstep history check %1` to read the run again from its nodes</source>
            <translation>执行 `lockstep history check %1`，从节点重新读取该运行</translation>
        </message>
        <message>
            <source>the rank's worker ended while it was debugged</source>
            <translation>该 rank 的工作进程在调试期间结束</translation>
        </message>
        <message>
            <source>gdbserver could not attach to process %1</source>
            <translation>gdbserver 无法附加到进程 %1</translation>
        </message>
        <message>
            <source>process %1 is being debugged already</source>
            <translation>进程 %1 已在被调试</translation>
        </message>
        <message>
            <source>process %1 debugs it</source>
            <translation>进程 %1 正在调试它</translation>
        </message>
        <message>
            <source>no debugger connected within %1 s</source>
            <translation>%1 秒内没有调试器连接</translation>
        </message>
        <message>
            <source>gdbserver is not installed on the node</source>
            <translation>节点上没有安装 gdbserver</translation>
        </message>
        <message>
            <source>look at kernel.yama.ptrace_scope on the node: it has to be 0 or 1</source>
            <translation>查看节点的 kernel.yama.ptrace_scope：须为 0 或 1</translation>
        </message>
        <message>
            <source>end that debugger first</source>
            <translation>请先结束那个调试器</translation>
        </message>
        <message>
            <source>install it there: sudo apt install gdbserver (Debian, Ubuntu), sudo dnf install gdb-gdbserver (Fedora, Red Hat)</source>
            <translation>在节点上安装：sudo apt install gdbserver（Debian、Ubuntu），sudo dnf install gdb-gdbserver（Fedora、Red Hat）</translation>
        </message>
        <message>
            <source>the account may not read the kernel's messages</source>
            <translation>该账户无权读取内核消息</translation>
        </message>
        <message>
            <source>the node's kernel.dmesg_restrict is 1</source>
            <translation>节点的 kernel.dmesg_restrict 为 1</translation>
        </message>
        <message>
            <source>%1 lines were requested, expected 1 to %2</source>
            <translation>请求了 %1 行，应为 1 到 %2</translation>
        </message>
        <message>
            <source>cannot read the kernel's messages</source>
            <translation>无法读取内核消息</translation>
        </message>
        <message>
            <source>run sudo dmesg on the node, or allow it there: sudo sysctl kernel.dmesg_restrict=0</source>
            <translation>在节点上运行 sudo dmesg，或在那里允许读取：sudo sysctl kernel.dmesg_restrict=0</translation>
        </message>
        <message>
            <source>the interval is %1 s, expected %2 to %3 s</source>
            <translation>时间间隔为 %1 秒，应为 %2 到 %3 秒</translation>
        </message>
        <message>
            <source>%1 processes were requested, expected 1 to %2</source>
            <translation>请求了 %1 个进程，应为 1 到 %2</translation>
        </message>
        <message>
            <source>the list of processes was cancelled</source>
            <translation>进程列表已取消</translation>
        </message>
        <message>
            <source>it took more than %1 s</source>
            <translation>耗时超过 %1 秒</translation>
        </message>
        <message>
            <source>set the node's kernel.yama.ptrace_scope to 1</source>
            <translation>将节点的 kernel.yama.ptrace_scope 设为 1</translation>
        </message>
        <message>
            <source>there is no rank %1</source>
            <translation>没有 rank %1</translation>
        </message>
        <message>
            <source>the run has ended: its ranks are not running</source>
            <translation>运行已结束：其 rank 不在运行</translation>
        </message>
        <message>
            <source>reading stacks was cancelled</source>
            <translation>读取调用栈已取消</translation>
        </message>
        <message>
            <source>the wait for a debugger is %1 s, expected 1 to %2 s</source>
            <translation>等待调试器的时间为 %1 秒，应为 1 到 %2 秒</translation>
        </message>
        <message>
            <source>rank %1 is being debugged by another client</source>
            <translation>rank %1 正被另一个客户端调试</translation>
        </message>
        <message>
            <source>end that session first</source>
            <translation>请先结束那个会话</translation>
        </message>
        <message>
            <source>rank %1 has no worker on this node</source>
            <translation>rank %1 在此节点上没有工作进程</translation>
        </message>
        <message>
            <source>the run has ended</source>
            <translation>运行已结束</translation>
        </message>
        <message>
            <source>its ranks are not running</source>
            <translation>其 rank 不在运行</translation>
        </message>
        <message>
            <source>the node's processes cannot be listed</source>
            <translation>无法列出节点的进程</translation>
        </message>
        <message>
            <source>the kernel's messages cannot be read</source>
            <translation>无法读取内核消息</translation>
        </message>
        <message>
            <source>the cluster has no node "%1"</source>
            <translation>集群中没有节点“%1”</translation>
        </message>
        <message>
            <source>%1 is one of %2, which have their fields together</source>
            <translation>%1 是 %2 之一，这些节点共用各项设置</translation>
        </message>
        <message>
            <source>name them all, or leave %1 out and add it as a node of its own</source>
            <translation>请写出整个范围，或者移除 %1，再将它作为单独的节点添加</translation>
        </message>
        <message>
            <source>no terminal program was found on this machine</source>
            <translation>本机未找到终端程序</translation>
        </message>
        <message>
            <source>install one, name yours in the environment variable TERMINAL, or copy the command</source>
            <translation>请安装一个，或用环境变量 TERMINAL 指定，或复制命令</translation>
        </message>
        <message>
            <source>rank %1 does not run on any node now</source>
            <translation>rank %1 目前不在任何节点上运行</translation>
        </message>
        <message>
            <source>debugging was cancelled</source>
            <translation>调试已取消</translation>
        </message>
        <message>
            <source>the rank cannot be debugged</source>
            <translation>无法调试该 rank</translation>
        </message>
        <message>
            <source>run %1 has ended</source>
            <translation>运行 %1 已结束</translation>
        </message>
        <message>
            <source>run %1 has no rank %2, but ranks 0 to %3</source>
            <translation>运行 %1 没有 rank %2，只有 rank 0 到 %3</translation>
        </message>
        <message>
            <source>the stacks cannot be read</source>
            <translation>无法读取调用栈</translation>
        </message>
        <message>
            <source>it can be done in runs that this version launches</source>
            <translation>在由本版本启动的运行中可以这样做</translation>
        </message>
        <message>
            <source>the run starts, restarts or has ended</source>
            <translation>运行正在启动、重启或已结束</translation>
        </message>
        <message>
            <source>try again in a moment</source>
            <translation>稍后重试</translation>
        </message>
        <message>
            <source>it has no processes</source>
            <translation>它没有进程</translation>
        </message>
        <message>
            <source>look at its log</source>
            <translation>查看其日志</translation>
        </message>
        <message>
            <source>show processes and kernel messages</source>
            <translation>显示进程和内核消息</translation>
        </message>
        <message>
            <source>read stacks on request and attach a debugger</source>
            <translation>按请求读取调用栈和附加调试器</translation>
        </message>
        <message>
            <source>check that the file can be written, and that its disk has room</source>
            <translation>请检查该文件是否可写，以及磁盘是否有空间</translation>
        </message>
        <message>
            <source>cannot write the studio's settings to %1</source>
            <translation>无法将工作室的设置写入 %1</translation>
        </message>
        <message>
            <source>the export was cancelled</source>
            <translation>导出已取消</translation>
        </message>
        <message>
            <source>node %1 cannot be excluded now</source>
            <translation>现在无法排除节点 %1</translation>
        </message>
        <message>
            <source>it coordinates the run</source>
            <translation>它是该运行的协调节点</translation>
        </message>
        <message>
            <source>lockstep stop %1, then resume the run on other nodes</source>
            <translation>先执行 lockstep stop %1，再在其他节点上继续该运行</translation>
        </message>
        <message>
            <source>it has no ranks of the run</source>
            <translation>它没有该运行的 rank</translation>
        </message>
        <message>
            <source>the run is ending</source>
            <translation>该运行即将结束</translation>
        </message>
        <message>
            <source>the run is starting or restarting</source>
            <translation>该运行正在启动或重启</translation>
        </message>
        <message>
            <source>ask again when it trains</source>
            <translation>请在它训练时再试</translation>
        </message>
        <message>
            <source>%1, and is excluded</source>
            <translation>%1，因此被排除</translation>
        </message>
        <message>
            <source>node %1 was excluded on request</source>
            <translation>节点 %1 已按要求被排除</translation>
        </message>
        <message>
            <source>nodes %1 were excluded on request</source>
            <translation>节点 %1 已按要求被排除</translation>
        </message>
        <message>
            <source>the checkpoint could not be copied</source>
            <translation>检查点无法复制</translation>
        </message>
        <message>
            <source>exclude a node on request</source>
            <translation>按要求排除节点</translation>
        </message>
        <message>
            <source>the node could not be excluded</source>
            <translation>无法排除该节点</translation>
        </message>
        <message>
            <source>no other node has a copy of its part of the checkpoints</source>
            <translation>其他节点都没有它那部分检查点的副本</translation>
        </message>
        <message>
            <source>launch the run with a greater training.checkpoint.copies</source>
            <translation>请以更大的 training.checkpoint.copies 启动运行</translation>
        </message>
        <message>
            <source>the ranks of run %1 cannot be restarted now</source>
            <translation>现在不能重启运行 %1 的 rank</translation>
        </message>
        <message>
            <source>a restart of all ranks was requested</source>
            <translation>收到了重启所有 rank 的请求</translation>
        </message>
        <message>
            <source>steps is %1; expected 1 to %2</source>
            <translation>steps 为 %1；应为 1 到 %2</translation>
        </message>
        <message>
            <source>no steps of run %1 can be recorded now</source>
            <translation>现在不能记录运行 %1 的步</translation>
        </message>
        <message>
            <source>restart a run's ranks on request</source>
            <translation>按请求重启运行的 rank</translation>
        </message>
        <message>
            <source>record the events of steps on request</source>
            <translation>按请求记录若干步的事件</translation>
        </message>
        <message>
            <source>nodes %1 cannot be excluded now</source>
            <translation>现在不能排除节点 %1</translation>
        </message>
        <message>
            <source>the ranks could not be restarted</source>
            <translation>无法重启 rank</translation>
        </message>
        <message>
            <source>no steps could be recorded</source>
            <translation>无法记录步</translation>
        </message>
        <message>
            <source>the folder %1/%2 is there already</source>
            <translation>文件夹 %1/%2 已存在</translation>
        </message>
        <message>
            <source>remove it, or choose another folder</source>
            <translation>请删除它，或选择另一个文件夹</translation>
        </message>
        <message>
            <source>connecting to the login node</source>
            <translation>正在连接登录节点</translation>
        </message>
        <message>
            <source>cancelling the job</source>
            <translation>正在取消作业</translation>
        </message>
        <message>
            <source>%1 job %2 was cancelled</source>
            <translation>%1 作业 %2 已取消</translation>
        </message>
        <message>
            <source>%1 does not list it any more</source>
            <translation>%1 已不再列出它</translation>
        </message>
        <message>
            <source>%1 job %2 could not be cancelled</source>
            <translation>无法取消 %1 作业 %2</translation>
        </message>
        <message>
            <source>run `scancel %1` on the login node</source>
            <translation>在登录节点上运行 `scancel %1`</translation>
        </message>
        <message>
            <source>deploying to the login node</source>
            <translation>正在部署到登录节点</translation>
        </message>
        <message>
            <source>submitting the job</source>
            <translation>正在提交作业</translation>
        </message>
        <message>
            <source>the allocation was cancelled</source>
            <translation>分配已取消</translation>
        </message>
        <message>
            <source>%1 job %2 ended before it could be used</source>
            <translation>%1 作业 %2 在可用之前就结束了</translation>
        </message>
        <message>
            <source>its state is %1</source>
            <translation>其状态为 %1</translation>
        </message>
        <message>
            <source>finding the nodes of the job</source>
            <translation>正在查找作业的节点</translation>
        </message>
        <message>
            <source>%1 job %2: %3</source>
            <translation>%1 作业 %2：%3</translation>
        </message>
        <message>
            <source>%1 job %2 is %3</source>
            <translation>%1 作业 %2 处于 %3</translation>
        </message>
        <message>
            <source>%1 job %2 is %3 (%4)</source>
            <translation>%1 作业 %2 处于 %3（%4）</translation>
        </message>
        <message>
            <source>%1, position %2 in the queue</source>
            <translation>%1，队列中第 %2 位</translation>
        </message>
        <message>
            <source>%1, expected to start at %2</source>
            <translation>%1，预计开始于 %2</translation>
        </message>
        <message>
            <source>this cluster has no placement</source>
            <translation>此集群没有 placement</translation>
        </message>
        <message>
            <source>its nodes are listed, and no scheduler provides them</source>
            <translation>其节点已列出，不由调度器提供</translation>
        </message>
        <message>
            <source>give it a placement of kind slurm or kubernetes</source>
            <translation>给它一个类型为 slurm 或 kubernetes 的 placement</translation>
        </message>
        <message>
            <source>%1 has not allocated this node yet</source>
            <translation>%1 尚未分配此节点</translation>
        </message>
        <message>
            <source>%1 job %2 is not running</source>
            <translation>%1 作业 %2 不在运行</translation>
        </message>
        <message>
            <source>%1 job %2 is over</source>
            <translation>%1 作业 %2 已结束</translation>
        </message>
        <message>
            <source>look at %1 on the login node</source>
            <translation>在登录节点上查看 %1</translation>
        </message>
        <message>
            <source>launch a run: its nodes are allocated then</source>
            <translation>启动一次运行：届时会分配节点</translation>
        </message>
        <message>
            <source>run `%1 delete jobs,services --selector=%2`</source>
            <translation>运行 `%1 delete jobs,services --selector=%2`</translation>
        </message>
        <message>
            <source>what was recorded of its runs is in the history</source>
            <translation>其运行已记录的内容在历史中</translation>
        </message>
        <message>
            <source>copying the agent failed</source>
            <translation>复制 agent 失败</translation>
        </message>
        <message>
            <source>check that kubectl is of version 1.29 or newer</source>
            <translation>检查 kubectl 是否为 1.29 或更新版本</translation>
        </message>
        <message>
            <source>install kubectl on this machine, and give it the cluster&apos;s configuration</source>
            <translation>请在本机安装 kubectl，并给它集群的配置</translation>
        </message>
        <message>
            <source>try the same command by hand; kubectl uses its own configuration</source>
            <translation>请手动运行同一命令；kubectl 使用它自己的配置</translation>
        </message>
        <message>
            <source>%1 is &quot;%2&quot;; expected lower-case letters, digits, - and .</source>
            <translation>%1 为“%2”；应为小写字母、数字、- 与 .</translation>
        </message>
        <message>
            <source>%1 is &quot;%2&quot;; expected no spaces, nor a - at its start</source>
            <translation>%1 为“%2”；不应有空格，也不应以 - 开头</translation>
        </message>
        <message>
            <source>image is missing; expected the image of the pods</source>
            <translation>缺少 image；应为 Pod 的镜像</translation>
        </message>
        <message>
            <source>memory is &quot;%1&quot;; expected a size like 64Gi</source>
            <translation>memory 为“%1”；应为形如 64Gi 的大小</translation>
        </message>
        <message>
            <source>the label &quot;%1&quot; with the value &quot;%2&quot; is not one of Kubernetes</source>
            <translation>标签“%1”（值为“%2”）不是 Kubernetes 的标签</translation>
        </message>
        <message>
            <source>workdir is &quot;%1&quot;; expected a path of a pod, which starts with /</source>
            <translation>workdir 为“%1”；应为 Pod 中以 / 开头的路径</translation>
        </message>
        <message>
            <source>volume_claim is missing; expected one, since a job that follows continues from the checkpoints there</source>
            <translation>缺少 volume_claim；应给出一个，因为后续作业从其中的检查点继续</translation>
        </message>
        <message>
            <source>a node of a job has no subsystem %1 of SSH</source>
            <translation>作业的节点没有 SSH 子系统 %1</translation>
        </message>
        <message>
            <source>the output of %1 is not understood</source>
            <translation>无法理解 %1 的输出</translation>
        </message>
        <message>
            <source>it printed &quot;%1&quot;</source>
            <translation>它输出了“%1”</translation>
        </message>
        <message>
            <source>`%1` failed</source>
            <translation>`%1` 失败</translation>
        </message>
        <message>
            <source>Slurm job %1 has no nodes</source>
            <translation>Slurm 作业 %1 没有节点</translation>
        </message>
        <message>
            <source>check that the login node has Slurm 22.05 or newer</source>
            <translation>检查登录节点上的 Slurm 是否为 22.05 或更新版本</translation>
        </message>
        <message>
            <source>name a login node that has Slurm&apos;s commands on the PATH of commands run over SSH</source>
            <translation>请给出一个登录节点，其通过 SSH 运行的命令的 PATH 中有 Slurm 的命令</translation>
        </message>
        <message>
            <source>give placement.devices in the cluster instead</source>
            <translation>改为在集群中给出 placement.devices</translation>
        </message>
        <message>
            <source>this machine has no subsystem %1 of SSH</source>
            <translation>本机没有 SSH 子系统 %1</translation>
        </message>
        <message>
            <source>nodes are given, but the scheduler of placement provides them; expected one of the two</source>
            <translation>给出了 nodes，但节点由 placement 的调度器提供；应只给出其中之一</translation>
        </message>
        <message>
            <source>%1 is &quot;%2&quot;; expected letters, digits and . _ , : + @ / -</source>
            <translation>%1 为“%2”；应为字母、数字与 . _ , : + @ / -</translation>
        </message>
        <message>
            <source>time is &quot;%1&quot;; expected MINUTES, HOURS:MINUTES:SECONDS or DAYS-HOURS:MINUTES:SECONDS</source>
            <translation>time 为“%1”；应为 MINUTES、HOURS:MINUTES:SECONDS 或 DAYS-HOURS:MINUTES:SECONDS</translation>
        </message>
        <message>
            <source>&quot;%1&quot; is not an option of sbatch; expected one like --constraint=a100</source>
            <translation>“%1”不是 sbatch 的选项；应形如 --constraint=a100</translation>
        </message>
        <message>
            <source>login is &quot;%1&quot;; expected [USER@]HOST[:PORT]</source>
            <translation>login 为“%1”；应为 [USER@]HOST[:PORT]</translation>
        </message>
        <message>
            <source>workdir is &quot;%1&quot;; expected a path that starts with / or ~/</source>
            <translation>workdir 为“%1”；应为以 / 或 ~/ 开头的路径</translation>
        </message>
        <message>
            <source>%1: no scheduler provides its nodes, so none queues its runs again</source>
            <translation>%1：其节点不由调度器提供，因此不会重新排队</translation>
        </message>
        <message>
            <source>the batch of run %1 cannot be divided anew now</source>
            <translation>现在无法重新划分运行 %1 的批次</translation>
        </message>
        <message>
            <source>a share of the batch is a number above 0</source>
            <translation>批次的份额须为大于 0 的数</translation>
        </message>
        <message>
            <source>the batch is divided anew, as was requested</source>
            <translation>已按请求重新划分批次</translation>
        </message>
        <message>
            <source>its program divides its batches itself</source>
            <translation>其程序自行划分批次</translation>
        </message>
        <message>
            <source>the batch cannot be divided by speed</source>
            <translation>无法按速度划分批次</translation>
        </message>
        <message>
            <source>%1 shares were given, and the batch is divided into %2</source>
            <translation>给出了 %1 个份额，而批次分为 %2 份</translation>
        </message>
        <message>
            <source>share %1 of %2 is less than one sample of %3</source>
            <translation>第 %1 个份额（共 %2 个）不足 %3 个样本中的一个</translation>
        </message>
        <message>
            <source>its batch was divided anew after step %1</source>
            <translation>其批次在第 %1 步之后被重新划分</translation>
        </message>
        <message>
            <source>divide a run's batch anew on request</source>
            <translation>按请求重新划分运行的批次</translation>
        </message>
        <message>
            <source>the batch could not be divided anew</source>
            <translation>未能重新划分批次</translation>
        </message>
        <message>
            <source>not all ranks have reported steps</source>
            <translation>并非所有 rank 都报告了步</translation>
        </message>
        <message>
            <source>all ranks have reported fewer than five steps with this division</source>
            <translation>在此划分下，所有 rank 都报告过的步不足五个</translation>
        </message>
        <message>
            <source>its ranks do not divide it</source>
            <translation>它的各 rank 并不分担批次</translation>
        </message>
        <message>
            <source>%1 of %2 parameters are frozen: they have no gradient and no optimizer state</source>
            <translation>%2 个参数中有 %1 个被冻结：它们没有梯度，也没有优化器状态</translation>
        </message>
        <message>
            <source>a table of %1 numbers and %2 categories names %3 and %4 columns</source>
            <translation>表有 %1 个数值和 %2 个类别，却指定了 %3 和 %4 列</translation>
        </message>
        <message>
            <source>it is UTF-16</source>
            <translation>它是 UTF-16 编码</translation>
        </message>
        <message>
            <source>line %1: its quotes are not closed within %2 bytes</source>
            <translation>第 %1 行：引号在 %2 字节内没有结束</translation>
        </message>
        <message>
            <source>its first row has quotes that are not closed, or within other text</source>
            <translation>首行中有未结束的引号，或夹在其他文字中的引号</translation>
        </message>
        <message>
            <source>its first row has a carriage return without a line feed</source>
            <translation>首行中有回车符而没有换行符</translation>
        </message>
        <message>
            <source>it has %1 columns, and none is &quot;%2&quot;</source>
            <translation>它有 %1 列，没有“%2”</translation>
        </message>
        <message>
            <source>its header has no column &quot;%1&quot;; it has %2</source>
            <translation>表头中没有“%1”列；有 %2</translation>
        </message>
        <message>
            <source>its header has the column &quot;%1&quot; twice</source>
            <translation>表头中有两个“%1”列</translation>
        </message>
        <message>
            <source>line %1: it has quotes that are not closed, or within other text</source>
            <translation>第 %1 行：有未结束的引号，或夹在其他文字中的引号</translation>
        </message>
        <message>
            <source>line %1: it has a carriage return without a line feed</source>
            <translation>第 %1 行：有回车符而没有换行符</translation>
        </message>
        <message>
            <source>line %1: it has %2 columns, the first row has %3</source>
            <translation>第 %1 行：有 %2 列，而首行有 %3 列</translation>
        </message>
        <message>
            <source>line %1: the label is &quot;%2&quot;, expected one of %3</source>
            <translation>第 %1 行：标签是“%2”，应为 %3 之一</translation>
        </message>
        <message>
            <source>save it as UTF-8</source>
            <translation>请另存为 UTF-8</translation>
        </message>
        <message>
            <source>correct the line</source>
            <translation>请更正该行</translation>
        </message>
        <message>
            <source>without a header, columns in data.csv are numbers from 1</source>
            <translation>没有表头时，data.csv 中的列是从 1 起的编号</translation>
        </message>
        <message>
            <source>correct data.csv, or the header</source>
            <translation>请更正 data.csv 或表头</translation>
        </message>
        <message>
            <source>correct the line, or data.csv</source>
            <translation>请更正该行或 data.csv</translation>
        </message>
        <message>
            <source>it is compressed by zstd</source>
            <translation>它经过 zstd 压缩</translation>
        </message>
        <message>
            <source>the zstd stream is truncated</source>
            <translation>zstd 数据流被截断</translation>
        </message>
        <message>
            <source>the zstd stream is corrupt (%1)</source>
            <translation>zstd 数据流已损坏（%1）</translation>
        </message>
        <message>
            <source>its zstd window is larger than %1 MiB</source>
            <translation>其 zstd 窗口大于 %1 MiB</translation>
        </message>
        <message>
            <source>compress it again, with zstd --long=27 at most</source>
            <translation>请重新压缩，最多用 zstd --long=27</translation>
        </message>
        <message>
            <source>&quot;%1&quot; matches no parameter; expected one of %2, or a pattern, as block* or block[0-3]</source>
            <translation>“%1”不匹配任何参数；应为 %2 之一，或模式，如 block* 或 block[0-3]</translation>
        </message>
        <message>
            <source>training.freeze names all parameters; expected some to be left to train</source>
            <translation>training.freeze 包含了所有参数；应留下一些用于训练</translation>
        </message>
        <message>
            <source>%1 names %2 columns, and %3 is %4; expected as many</source>
            <translation>%1 指定了 %2 列，而 %3 为 %4；两者应相等</translation>
        </message>
        <message>
            <source>the labels of loss mse are numbers; expected it left out</source>
            <translation>损失 mse 的标签是数值；应省略此项</translation>
        </message>
        <message>
            <source>&quot;%1&quot; is listed twice</source>
            <translation>“%1”出现了两次</translation>
        </message>
        <message>
            <source>data.csv.classes has %1 texts, and the model has %2 classes; expected as many</source>
            <translation>data.csv.classes 有 %1 个文本，而模型有 %2 个类别；两者应相等</translation>
        </message>
        <message>
            <source>a separator is one ASCII character other than a quote; expected one, as ;</source>
            <translation>分隔符是引号以外的单个 ASCII 字符；应为一个，如 ;</translation>
        </message>
        <message>
            <source>only tables are CSV; expected it left out</source>
            <translation>只有表格才是 CSV；应省略此项</translation>
        </message>
        <message>
            <source>label is missing; expected the name of a column</source>
            <translation>缺少 label；应为一列的名称</translation>
        </message>
        <message>
            <source>&quot;%1&quot; is the label; expected another column</source>
            <translation>“%1”是标签；应为另一列</translation>
        </message>
        <message>
            <source>cannot read the file</source>
            <translation>无法读取该文件</translation>
        </message>
        <message>
            <source>the file has %1 bytes: there is no part of %2 from %3 on</source>
            <translation>该文件有 %1 字节：从 %3 起没有 %2 字节的部分</translation>
        </message>
        <message>
            <source>the file became shorter while it was read</source>
            <translation>该文件在读取过程中变短了</translation>
        </message>
        <message>
            <source>the run has no workload.setup</source>
            <translation>该运行没有 workload.setup</translation>
        </message>
        <message>
            <source>the process that sets the program up %1</source>
            <translation>准备程序的进程%1</translation>
        </message>
        <message>
            <source>mpirun ended before it had started the ranks</source>
            <translation>mpirun 在启动各 rank 之前就结束了</translation>
        </message>
        <message>
            <source>more than %1 files match workload.artifacts.collect</source>
            <translation>匹配 workload.artifacts.collect 的文件超过 %1 个</translation>
        </message>
        <message>
            <source>the file %1 cannot be fetched</source>
            <translation>无法取回文件 %1</translation>
        </message>
        <message>
            <source>the file %1 has changed</source>
            <translation>文件 %1 已改变</translation>
        </message>
        <message>
            <source>name fewer, or have the program pack them into an archive</source>
            <translation>请减少文件，或让程序将其打包</translation>
        </message>
        <message>
            <source>it is a link that leaves the folder of the code</source>
            <translation>它是指向代码文件夹之外的链接</translation>
        </message>
        <message>
            <source>wait until nothing writes to it, and fetch it again</source>
            <translation>请等到没有程序写入它，再重新取回</translation>
        </message>
        <message>
            <source>install %1 on the node, add its folder to workload.env.PATH, or choose another workload.python.kind</source>
            <translation>请在节点上安装 %1，将其文件夹加入 workload.env.PATH，或选择其他 workload.python.kind</translation>
        </message>
        <message>
            <source>the container cannot see the folder %1, whose path has a colon or a comma</source>
            <translation>容器无法看到文件夹 %1，其路径含有冒号或逗号</translation>
        </message>
        <message>
            <source>install Open MPI on all nodes, or add its folder to workload.env.PATH</source>
            <translation>请在所有节点上安装 Open MPI，或将其文件夹加入 workload.env.PATH</translation>
        </message>
        <message>
            <source>see the run's log for what it said</source>
            <translation>其输出见运行的日志</translation>
        </message>
        <message>
            <source>%1 is in use</source>
            <translation>%1 正在使用</translation>
        </message>
        <message>
            <source>the setup command `%1` %2</source>
            <translation>准备命令 `%1` %2</translation>
        </message>
        <message>
            <source>the program is not set up on the node</source>
            <translation>该节点上的程序尚未准备</translation>
        </message>
        <message>
            <source>launch again, which runs workload.setup</source>
            <translation>请重新启动，这会运行 workload.setup</translation>
        </message>
        <message>
            <source>the node lists more than %1 files</source>
            <translation>该节点列出的文件超过 %1 个</translation>
        </message>
        <message>
            <source>%1 on node %2 is left out: %3</source>
            <translation>节点 %2 上的 %1 未取回：%3</translation>
        </message>
        <message>
            <source>the file was damaged on its way from %1</source>
            <translation>文件在从 %1 传来的途中损坏</translation>
        </message>
        <message>
            <source>the program's files have %1 bytes, more than the %2 that may be fetched</source>
            <translation>程序的文件共 %1 字节，超过可取回的 %2 字节</translation>
        </message>
        <message>
            <source>the largest: %1</source>
            <translation>最大的：%1</translation>
        </message>
        <message>
            <source>another program fetches the files of run %1</source>
            <translation>另一个程序正在取回运行 %1 的文件</translation>
        </message>
        <message>
            <source>the fetching was cancelled</source>
            <translation>取回已取消</translation>
        </message>
        <message>
            <source>its size is below 0</source>
            <translation>其大小小于 0</translation>
        </message>
        <message>
            <source>narrow workload.artifacts.collect or raise max_bytes; for this run: lockstep artifacts RUN --max-bytes BYTES</source>
            <translation>请缩小 workload.artifacts.collect 或提高 max_bytes；对于此运行：lockstep artifacts RUN --max-bytes BYTES</translation>
        </message>
        <message>
            <source>cannot open the folder of %1</source>
            <translation>无法打开 %1 所在的文件夹</translation>
        </message>
        <message>
            <source>run workload.setup</source>
            <translation>运行 workload.setup</translation>
        </message>
        <message>
            <source>send a program's files</source>
            <translation>发送程序的文件</translation>
        </message>
        <message>
            <source>follow workload.restart and workload.metrics.hooks</source>
            <translation>遵循 workload.restart 和 workload.metrics.hooks</translation>
        </message>
        <message>
            <source>run programs by uv or apptainer</source>
            <translation>通过 uv 或 apptainer 运行程序</translation>
        </message>
        <message>
            <source>"%1" is not the absolute path of a folder, without : and ,</source>
            <translation>“%1” 不是文件夹的绝对路径（不得含 : 和 ,）</translation>
        </message>
        <message>
            <source>setup runs in the program's copy of the code, and code.disabled makes none; expected one of them left out</source>
            <translation>setup 在程序的代码副本中运行，而 code.disabled 不生成副本；应省略其中之一</translation>
        </message>
        <message>
            <source>a command of setup is empty, or has a zero byte</source>
            <translation>setup 的某个命令为空，或含有零字节</translation>
        </message>
        <message>
            <source>"%1" is not a pattern of files below the folder of the code: %2</source>
            <translation>“%1” 不是代码文件夹之下的文件的模式：%2</translation>
        </message>
        <message>
            <source>the node could not set the program up</source>
            <translation>该节点无法准备程序</translation>
        </message>
        <message>
            <source>cannot list the program's files</source>
            <translation>无法列出程序的文件</translation>
        </message>
        <message>
            <source>cannot fetch a file of the program</source>
            <translation>无法取回程序的文件</translation>
        </message>
        <message>
            <source>its path is absolute, or has a part that is empty, . or .., or a zero byte</source>
            <translation>其路径是绝对路径，或其中有为空、. 或 .. 的部分，或含有零字节</translation>
        </message>
        <message>
            <source>its path is too long</source>
            <translation>其路径过长</translation>
        </message>
        <message>
            <source>another file of node %1 was not fetched</source>
            <translation>节点 %1 另有一个文件未取回</translation>
        </message>
        <message>
            <source>%1 more files of node %2 were not fetched</source>
            <translation>节点 %2 另有 %1 个文件未取回</translation>
        </message>
        <message>
            <source>%1 stands for one name</source>
            <translation>%1 只代表一个名称</translation>
        </message>
        <message>
            <source>%1 nodes are to wait as spares, and the cluster has %2 that train; expected at most %3</source>
            <translation>要有 %1 个备用节点，而集群有 %2 个参与训练的节点；最多 %3 个</translation>
        </message>
        <message>
            <source>use a faster disk</source>
            <translation>使用更快的磁盘</translation>
        </message>
        <message>
            <source>no checkpoints are written, so that after a failure recovery.policy %1 trains all steps again: set training.checkpoint.disabled to false</source>
            <translation>不写检查点，因此发生故障后 recovery.policy %1 会重新训练所有步：请把 training.checkpoint.disabled 设为 false</translation>
        </message>
        <message>
            <source>within an epoch, a failure costs up to %1 steps, %2 min at the predicted step time: set training.checkpoint.every_minutes to less</source>
            <translation>在一轮内，一次故障最多损失 %1 步，按预测的每步时间为 %2 分钟：请减小 training.checkpoint.every_minutes</translation>
        </message>
        <message>
            <source>parts of a checkpoint are on one host alone, so that a run that loses this host loses its checkpoints too: set training.checkpoint.copies to 1, or training.checkpoint.path to storage that all nodes share</source>
            <translation>检查点的一部分只在一台主机上，运行失去这台主机时也会失去检查点：请把 training.checkpoint.copies 设为 1，或把 training.checkpoint.path 设为所有节点共享的存储</translation>
        </message>
        <message>
            <source>the run ends if one of its %1 hosts is lost and does not come back: set recovery.policy to shrink, so that it continues on the others, or recovery.spares to 1, so that another node replaces it</source>
            <translation>如果 %1 台主机中的一台失去联系且不再恢复，运行就会结束：请把 recovery.policy 设为 shrink，让运行在其余主机上继续，或把 recovery.spares 设为 1，由另一个节点接替它</translation>
        </message>
        <message>
            <source>a step is predicted to take %1 s, and a collective fails after %2 s without progress: use fewer ranks per host</source>
            <translation>预测每步需要 %1 秒，而集合通信在 %2 秒没有进展后失败：请减少每台主机上的 rank</translation>
        </message>
        <message>
            <source>a collective fails after %1 min without progress, %2 times the predicted step or evaluation: so long do ranks wait for one that is frozen</source>
            <translation>集合通信在 %1 分钟没有进展后失败，即预测的一步或一次评估时间的 %2 倍：各 rank 会等待一个冻结的 rank 这么久</translation>
        </message>
        <message>
            <source>the checkpoint at step %1 is late</source>
            <translation>第 %1 步的检查点推迟</translation>
        </message>
        <message>
            <source>the memory of 1 node is not known until it is connected</source>
            <translation>1 个节点的内存在连接之前未知</translation>
        </message>
        <message>
            <source>the memory of %1 nodes is not known until they are connected</source>
            <translation>%1 个节点的内存在连接之前未知</translation>
        </message>
        <message>
            <source>strategy.kind is auto, which leaves %1 open; give --pin %2=VALUE</source>
            <translation>strategy.kind 为 auto，未确定 %1；请使用 --pin %2=值</translation>
        </message>
        <message>
            <source>reading was cancelled</source>
            <translation>读取已取消</translation>
        </message>
        <message>
            <source>the server sent another part of it than asked for</source>
            <translation>服务器发来的部分与所请求的不同</translation>
        </message>
        <message>
            <source>fetch it from another server</source>
            <translation>请从另一台服务器获取</translation>
        </message>
        <message>
            <source>set data.max_bytes, if that is right</source>
            <translation>若确应如此，请设置 data.max_bytes</translation>
        </message>
        <message>
            <source>it has more than %1 bytes</source>
            <translation>它超过 %1 字节</translation>
        </message>
        <message>
            <source>the server answered with status %1: %2</source>
            <translation>服务器以状态 %1 回应：%2</translation>
        </message>
        <message>
            <source>set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY where the node's agent starts, or put them into ~/.aws/credentials there</source>
            <translation>请在启动该节点代理的环境中设置 AWS_ACCESS_KEY_ID 和 AWS_SECRET_ACCESS_KEY，或写入该节点的 ~/.aws/credentials</translation>
        </message>
        <message>
            <source>fetch it from a server that asks for no credentials, or by s3://</source>
            <translation>请从不要求凭据的服务器获取，或使用 s3://</translation>
        </message>
        <message>
            <source>launch again once the server is well</source>
            <translation>请在服务器恢复后重新启动</translation>
        </message>
        <message>
            <source>set AWS_REGION or AWS_ENDPOINT_URL_S3 on the node to those of the bucket</source>
            <translation>请在该节点上把 AWS_REGION 或 AWS_ENDPOINT_URL_S3 设为该存储桶的值</translation>
        </message>
        <message>
            <source>correct the URL in the run</source>
            <translation>请更正运行中的 URL</translation>
        </message>
        <message>
            <source>curl ended with code %1</source>
            <translation>curl 以代码 %1 结束</translation>
        </message>
        <message>
            <source>the transfer ended after %1 of %2 bytes: %3</source>
            <translation>传输在 %2 字节中的 %1 处结束：%3</translation>
        </message>
        <message>
            <source>check whether the node reaches the server: curl -I there</source>
            <translation>请检查该节点能否访问服务器：在该节点上运行 curl -I</translation>
        </message>
        <message>
            <source>cannot fetch the data file %1</source>
            <translation>无法获取数据文件 %1</translation>
        </message>
        <message>
            <source>cannot pass the URL to curl</source>
            <translation>无法把 URL 传给 curl</translation>
        </message>
        <message>
            <source>cannot start curl</source>
            <translation>无法启动 curl</translation>
        </message>
        <message>
            <source>there is no curl on the node</source>
            <translation>该节点上没有 curl</translation>
        </message>
        <message>
            <source>data files with a URL are fetched by it</source>
            <translation>带 URL 的数据文件由它获取</translation>
        </message>
        <message>
            <source>install the package curl there</source>
            <translation>请在该节点上安装软件包 curl</translation>
        </message>
        <message>
            <source>the endpoint of the S3 store is not a URL that can be used</source>
            <translation>S3 存储的端点不是可用的 URL</translation>
        </message>
        <message>
            <source>set AWS_ENDPOINT_URL_S3 on the node to https://host or http://host:port, without credentials</source>
            <translation>请在该节点上把 AWS_ENDPOINT_URL_S3 设为 https://host 或 http://host:port，不含凭据</translation>
        </message>
        <message>
            <source>correct the URL, or the hash in the run</source>
            <translation>请更正运行中的 URL 或哈希</translation>
        </message>
        <message>
            <source>fetching %1 on %2: %3 MB</source>
            <translation>正在 %2 上获取 %1：%3 MB</translation>
        </message>
        <message>
            <source>fetching %1 on %2: %3 of %4 MB</source>
            <translation>正在 %2 上获取 %1：%4 MB 中的 %3</translation>
        </message>
        <message>
            <source>the URL of a data file is wrong</source>
            <translation>数据文件的 URL 有误</translation>
        </message>
        <message>
            <source>the name of the bucket or the key has other characters than these can have</source>
            <translation>存储桶名或键含有不允许的字符</translation>
        </message>
        <message>
            <source>write it as s3://bucket/key, with the key as it is in the bucket</source>
            <translation>请写作 s3://bucket/key，键与存储桶中的一致</translation>
        </message>
        <message>
            <source>it has characters that a URL cannot have</source>
            <translation>它含有 URL 不允许的字符</translation>
        </message>
        <message>
            <source>percent-encode them, as %20</source>
            <translation>请用百分号编码，如 %20</translation>
        </message>
        <message>
            <source>it is signed, and what a run's spec has is kept</source>
            <translation>它带有签名，而运行规格的内容会被保存</translation>
        </message>
        <message>
            <source>write objects of an S3 store as s3://bucket/key: the node signs its requests</source>
            <translation>S3 存储中的对象请写作 s3://bucket/key：节点会自行签名其请求</translation>
        </message>
        <message>
            <source>write https://host/path, http://host/path or s3://bucket/key</source>
            <translation>请写 https://host/path、http://host/path 或 s3://bucket/key</translation>
        </message>
        <message>
            <source>a data file's URL has at most %1 characters</source>
            <translation>数据文件的 URL 最多 %1 个字符</translation>
        </message>
        <message>
            <source>it has a user name or a password, and what a run's spec has is kept</source>
            <translation>它含有用户名或密码，而运行规格的内容会被保存</translation>
        </message>
        <message>
            <source>leave them out: the node takes credentials for s3:// from its environment or from ~/.aws/credentials, and uses none for other URLs</source>
            <translation>请去掉它们：对 s3://，节点从其环境或 ~/.aws/credentials 取得凭据，对其他 URL 则不使用凭据</translation>
        </message>
        <message>
            <source>it names no file</source>
            <translation>它没有指明文件</translation>
        </message>
        <message>
            <source>the data file %1 is not here</source>
            <translation>数据文件 %1 不在本机</translation>
        </message>
        <message>
            <source>a data file with a URL is fetched by the nodes of a run, at its launch</source>
            <translation>带 URL 的数据文件由运行的节点在启动时获取</translation>
        </message>
        <message>
            <source>download it, and name the file instead of the URL</source>
            <translation>请下载它，并用文件代替 URL</translation>
        </message>
        <message>
            <source>fetch data files from URLs</source>
            <translation>从 URL 获取数据文件</translation>
        </message>
        <message>
            <source>the collector says: %1</source>
            <translation>收集器的答复：%1</translation>
        </message>
        <message>
            <source>metrics of the run cannot be sent to %1 now</source>
            <translation>目前无法把运行的指标发送到 %1</translation>
        </message>
        <message>
            <source>curves of the run cannot be written to %1 now</source>
            <translation>目前无法把运行的曲线写入 %1</translation>
        </message>
        <message>
            <source>%1 does not take metrics of the run</source>
            <translation>%1 不接受运行的指标</translation>
        </message>
        <message>
            <source>points of the run that %1 did not get: %2</source>
            <translation>%1 未收到的运行数据点：%2</translation>
        </message>
        <message>
            <source>the history has them: lockstep history export %1</source>
            <translation>历史记录中有这些数据：lockstep history export %1</translation>
        </message>
        <message>
            <source>they are tried again while the run is followed; see sinks in its spec</source>
            <translation>跟踪运行期间会重试；见其规格中的 sinks</translation>
        </message>
        <message>
            <source>check sinks.otlp and the collector's settings</source>
            <translation>检查 sinks.otlp 和收集器的设置</translation>
        </message>
        <message>
            <source>sinks.otlp is no URL; expected one as http://collector:4318</source>
            <translation>sinks.otlp 不是 URL；应形如 http://collector:4318</translation>
        </message>
        <message>
            <source>sinks.otlp has a user name or a password, and what a run's spec has is kept; expected them left out, and the variable OTEL_EXPORTER_OTLP_HEADERS set where the run is followed</source>
            <translation>sinks.otlp 含有用户名或密码，而运行规格的内容会被保存；应将其去掉，并在跟踪运行的地方设置变量 OTEL_EXPORTER_OTLP_HEADERS</translation>
        </message>
        <message>
            <source>'%1' is no name of a node; expected letters, digits, '-', '_' and '.'</source>
            <translation>“%1”不是节点名；应由字母、数字、“-”“_”和“.”组成</translation>
        </message>
        <message>
            <source>the cluster already has a node %1</source>
            <translation>集群中已有节点 %1</translation>
        </message>
        <message>
            <source>there is no kind of model '%1'</source>
            <translation>没有模型种类“%1”</translation>
        </message>
        <message>
            <source>node %1 writes %2 MB/s to its disk, usually %3</source>
            <translation>节点 %1 写入磁盘的速度为 %2 MB/s，通常为 %3</translation>
        </message>
        <message>
            <source>not enough disk space for the benchmark</source>
            <translation>磁盘空间不足，无法进行基准测试</translation>
        </message>
        <message>
            <source>%1 MiB are free in %2, %3 MiB are needed</source>
            <translation>%2 中有 %1 MiB 可用，需要 %3 MiB</translation>
        </message>
        <message>
            <source>cannot write in %1</source>
            <translation>无法在 %1 中写入</translation>
        </message>
        <message>
            <source>%1 on node %2</source>
            <translation>%1 个，在节点 %2 上</translation>
        </message>
        <message>
            <source>%1 on %2 nodes</source>
            <translation>%1 个，在 %2 个节点上</translation>
        </message>
        <message>
            <source>Ranks</source>
            <translation>Rank</translation>
        </message>
        <message>
            <source>Spare nodes</source>
            <translation>备用节点</translation>
        </message>
        <message>
            <source>Resumed from</source>
            <translation>续自</translation>
        </message>
        <message>
            <source>run %1</source>
            <translation>运行 %1</translation>
        </message>
        <message>
            <source>1 epoch</source>
            <translation>1 轮</translation>
        </message>
        <message>
            <source>%1 epochs</source>
            <translation>%1 轮</translation>
        </message>
        <message>
            <source>%1 steps</source>
            <translation>%1 步</translation>
        </message>
        <message>
            <source>%1, but at most %2 steps</source>
            <translation>%1，但至多 %2 步</translation>
        </message>
        <message>
            <source>%1; the data tell how many steps</source>
            <translation>%1；步数由数据决定</translation>
        </message>
        <message>
            <source>%1 steps; an epoch has %2</source>
            <translation>%1 步；每轮 %2 步</translation>
        </message>
        <message>
            <source>%1 of %2 steps: %3 steps</source>
            <translation>%1，每轮 %2 步：共 %3 步</translation>
        </message>
        <message>
            <source>Global batch</source>
            <translation>全局批量</translation>
        </message>
        <message>
            <source>%1 samples</source>
            <translation>%1 个样本</translation>
        </message>
        <message>
            <source>Batch per rank</source>
            <translation>每个 rank 的批量</translation>
        </message>
        <message>
            <source>%1 to %2 samples</source>
            <translation>%1 至 %2 个样本</translation>
        </message>
        <message>
            <source>Micro-batches</source>
            <translation>微批次数</translation>
        </message>
        <message>
            <source>Optimizer</source>
            <translation>优化器</translation>
        </message>
        <message>
            <source>Learning rate</source>
            <translation>学习率</translation>
        </message>
        <message>
            <source>%1: %2 for a batch of %3, in proportion</source>
            <translation>%1：批量 %3 时为 %2，按比例缩放</translation>
        </message>
        <message>
            <source>Learning rate schedule</source>
            <translation>学习率调度</translation>
        </message>
        <message>
            <source>constant</source>
            <translation>恒定</translation>
        </message>
        <message>
            <source>times %1 every %2 steps</source>
            <translation>每 %2 步乘以 %1</translation>
        </message>
        <message>
            <source>%1 to %2 at step %3</source>
            <translation>%1，第 %3 步降至 %2</translation>
        </message>
        <message>
            <source>Warm-up</source>
            <translation>预热</translation>
        </message>
        <message>
            <source>Strategy</source>
            <translation>策略</translation>
        </message>
        <message>
            <source>Length</source>
            <translation>长度</translation>
        </message>
        <message>
            <source>Precision</source>
            <translation>精度</translation>
        </message>
        <message>
            <source>Evaluation</source>
            <translation>评估</translation>
        </message>
        <message>
            <source>none</source>
            <translation>无</translation>
        </message>
        <message>
            <source>after each epoch, by node %1</source>
            <translation>每轮之后，由节点 %1 进行</translation>
        </message>
        <message>
            <source>after each epoch, by all ranks</source>
            <translation>每轮之后，由所有 rank 进行</translation>
        </message>
        <message>
            <source>Checkpoints</source>
            <translation>检查点</translation>
        </message>
        <message>
            <source>every %1 steps, every %2 min, and at the end of each epoch</source>
            <translation>每 %1 步、每 %2 分钟及每轮结束时</translation>
        </message>
        <message>
            <source>every %1 min, and at the end of each epoch</source>
            <translation>每 %1 分钟及每轮结束时</translation>
        </message>
        <message>
            <source>Checkpoints kept</source>
            <translation>保留的检查点数</translation>
        </message>
        <message>
            <source>Checkpoint folder</source>
            <translation>检查点文件夹</translation>
        </message>
        <message>
            <source>the job&apos;s folder, which its nodes share</source>
            <translation>作业的文件夹，由其各节点共享</translation>
        </message>
        <message>
            <source>the run&apos;s folder on each node</source>
            <translation>各节点上该次运行的文件夹</translation>
        </message>
        <message>
            <source>%1, in a folder of the run&apos;s own</source>
            <translation>%1 下该次运行自己的文件夹</translation>
        </message>
        <message>
            <source>Checkpoint copies</source>
            <translation>检查点副本</translation>
        </message>
        <message>
            <source>on 1 other node</source>
            <translation>在 1 个其他节点上</translation>
        </message>
        <message>
            <source>on %1 other nodes</source>
            <translation>在 %1 个其他节点上</translation>
        </message>
        <message>
            <source>Checkpoint size</source>
            <translation>检查点大小</translation>
        </message>
        <message>
            <source>Heartbeat</source>
            <translation>心跳</translation>
        </message>
        <message>
            <source>every %1 s</source>
            <translation>每 %1 秒</translation>
        </message>
        <message>
            <source>Node silent after</source>
            <translation>节点无响应判定</translation>
        </message>
        <message>
            <source>%1 s: %2 heartbeats</source>
            <translation>%1 秒：%2 次心跳</translation>
        </message>
        <message>
            <source>Node lost after</source>
            <translation>节点失去判定</translation>
        </message>
        <message>
            <source>%1 s: %2 heartbeats, but at least %3 s</source>
            <translation>%1 秒：%2 次心跳，但至少 %3 秒</translation>
        </message>
        <message>
            <source>Hang after</source>
            <translation>挂起判定</translation>
        </message>
        <message>
            <source>never</source>
            <translation>从不</translation>
        </message>
        <message>
            <source>%1 s without output of any rank</source>
            <translation>所有 rank 无输出 %1 秒</translation>
        </message>
        <message>
            <source>Collective fails after</source>
            <translation>集合通信超时</translation>
        </message>
        <message>
            <source>%1 s without progress: %2 times the predicted step, but at least %3 s</source>
            <translation>无进展 %1 秒：预测步时的 %2 倍，但至少 %3 秒</translation>
        </message>
        <message>
            <source>Hang reported after</source>
            <translation>挂起报告</translation>
        </message>
        <message>
            <source>%1 s: %2 times the usual step, here the predicted one, but at least %3 s</source>
            <translation>%1 秒：通常步时（此处为预测步时）的 %2 倍，但至少 %3 秒</translation>
        </message>
        <message>
            <source>After a failure</source>
            <translation>故障之后</translation>
        </message>
        <message>
            <source>the run ends</source>
            <translation>运行结束</translation>
        </message>
        <message>
            <source>the program starts again, at most %1 times</source>
            <translation>重新启动程序，至多 %1 次</translation>
        </message>
        <message>
            <source>the newest checkpoint</source>
            <translation>最近的检查点</translation>
        </message>
        <message>
            <source>the first step</source>
            <translation>第一步</translation>
        </message>
        <message>
            <source>restarts from %1, also without lost nodes, at most %2 times</source>
            <translation>从%1重启，失去节点后也用其余节点继续，至多 %2 次</translation>
        </message>
        <message>
            <source>restarts from %1, at most %2 times</source>
            <translation>从%1重启，至多 %2 次</translation>
        </message>
        <message>
            <source>Failures that restart it</source>
            <translation>触发重启的故障</translation>
        </message>
        <message>
            <source>all</source>
            <translation>全部</translation>
        </message>
        <message>
            <source>Curves as %1</source>
            <translation>曲线输出到 %1</translation>
        </message>
        <message>
            <source>Program</source>
            <translation>程序</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::MessagePanel</name>
        <message>
            <source>Copy details</source>
            <translation>复制详情</translation>
        </message>
        <message>
            <source>Close message</source>
            <translation>关闭消息</translation>
        </message>
        <message>
            <source>Message</source>
            <translation>消息</translation>
        </message>
        <message>
            <source>Action</source>
            <translation>操作</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::ModelPage</name>
        <message>
            <source>Code</source>
            <translation>代码</translation>
        </message>
        <message>
            <source>Python</source>
            <translation>Python</translation>
        </message>
        <message>
            <source>Metrics</source>
            <translation>指标</translation>
        </message>
        <message>
            <source>Program</source>
            <translation>程序</translation>
        </message>
        <message>
            <source>Recovery</source>
            <translation>恢复</translation>
        </message>
        <message>
            <source>Add layer</source>
            <translation>添加层</translation>
        </message>
        <message>
            <source>Remove layer</source>
            <translation>移除层</translation>
        </message>
        <message>
            <source>Move layer</source>
            <translation>移动层</translation>
        </message>
        <message>
            <source>Input</source>
            <translation>输入</translation>
        </message>
        <message>
            <source>Optimizer</source>
            <translation>优化器</translation>
        </message>
        <message>
            <source>Checkpoints</source>
            <translation>检查点</translation>
        </message>
        <message>
            <source>Training data</source>
            <translation>训练数据</translation>
        </message>
        <message>
            <source>Evaluation data</source>
            <translation>评估数据</translation>
        </message>
        <message>
            <source>Run spec</source>
            <translation>运行规格</translation>
        </message>
        <message>
            <source>Strategy</source>
            <translation>策略</translation>
        </message>
        <message>
            <source>Global batch</source>
            <translation>全局批量</translation>
        </message>
        <message>
            <source>Epochs</source>
            <translation>轮数</translation>
        </message>
        <message>
            <source>Learning rate</source>
            <translation>学习率</translation>
        </message>
        <message>
            <source>Precision</source>
            <translation>精度</translation>
        </message>
        <message>
            <source>Layers</source>
            <translation>层</translation>
        </message>
        <message>
            <source>File</source>
            <translation>文件</translation>
        </message>
        <message>
            <source>Launch…</source>
            <translation>启动…</translation>
        </message>
        <message>
            <source>Choose cluster and strategy, see the prediction, and launch</source>
            <translation>选择运行的位置与方式，查看预计开销，然后启动</translation>
        </message>
        <message>
            <source>Parameters</source>
            <translation>参数</translation>
        </message>
        <message>
            <source>Forward pass, one sample</source>
            <translation>前向计算（单样本）</translation>
        </message>
        <message>
            <source>Activations, one sample</source>
            <translation>激活内存（单样本）</translation>
        </message>
        <message>
            <source>Settings</source>
            <translation>设置</translation>
        </message>
        <message>
            <source>Move layer up</source>
            <translation>上移该层</translation>
        </message>
        <message>
            <source>Move layer down</source>
            <translation>下移该层</translation>
        </message>
        <message>
            <source>Layer</source>
            <translation>层</translation>
        </message>
        <message>
            <source>Model</source>
            <translation>模型</translation>
        </message>
        <message>
            <source>Training</source>
            <translation>训练</translation>
        </message>
        <message>
            <source>Data</source>
            <translation>数据</translation>
        </message>
        <message>
            <source>Part of the spec</source>
            <translation>规格的部分</translation>
        </message>
        <message>
            <source>Model %1</source>
            <translation>模型 %1</translation>
        </message>
        <message>
            <source>Augmentation</source>
            <translation>数据增强</translation>
        </message>
        <message>
            <source>Loss scale</source>
            <translation>损失缩放</translation>
        </message>
        <message>
            <source>Learning rate schedule</source>
            <translation>学习率调度</translation>
        </message>
        <message>
            <source>Select a layer in the table above to change its settings.</source>
            <translation>在上方表格中选中一层以更改其设置。</translation>
        </message>
        <message>
            <source>No layers yet</source>
            <translation>还没有层</translation>
        </message>
        <message>
            <source>Edit layer</source>
            <translation>编辑层</translation>
        </message>
        <message>
            <source>Add layer…</source>
            <translation>添加层…</translation>
        </message>
        <message>
            <source>Text</source>
            <translation>文本</translation>
        </message>
        <message>
            <source>Graph</source>
            <translation>图</translation>
        </message>
        <message>
            <source>Views of the spec</source>
            <translation>规格的视图</translation>
        </message>
        <message>
            <source>Artifacts</source>
            <translation>产物</translation>
        </message>
        <message>
            <source>Restart</source>
            <translation>重新启动</translation>
        </message>
        <message>
            <source>Sinks</source>
            <translation>输出目标</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::NavigatorModel</name>
        <message>
            <source>Clusters</source>
            <translation>集群</translation>
        </message>
        <message>
            <source>Models</source>
            <translation>模型</translation>
        </message>
        <message>
            <source>Runs</source>
            <translation>运行</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::NodePhase</name>
        <message>
            <source>not connected</source>
            <translation>未连接</translation>
        </message>
        <message>
            <source>connecting</source>
            <translation>连接中</translation>
        </message>
        <message>
            <source>deploying</source>
            <translation>部署中</translation>
        </message>
        <message>
            <source>starting the agent</source>
            <translation>启动代理中</translation>
        </message>
        <message>
            <source>connected</source>
            <translation>已连接</translation>
        </message>
        <message>
            <source>reconnecting</source>
            <translation>重新连接中</translation>
        </message>
        <message>
            <source>failed</source>
            <translation>失败</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::NodeTableModel</name>
        <message>
            <source>waiting for your input</source>
            <translation>等待您的答复</translation>
        </message>
        <message>
            <source>%1 free</source>
            <translation>可用 %1</translation>
        </message>
        <message numerus="yes">
            <source>%1, %n core(s)</source>
            <translation>
                <numerusform>%1，%n 个核心</numerusform>
            </translation>
        </message>
        <message>
            <source>reads %1, writes %2</source>
            <translation>读 %1，写 %2</translation>
        </message>
        <message>
            <source>Node</source>
            <translation>节点</translation>
        </message>
        <message>
            <source>State</source>
            <translation>状态</translation>
        </message>
        <message>
            <source>CPU</source>
            <translation>CPU</translation>
        </message>
        <message>
            <source>Memory</source>
            <translation>内存</translation>
        </message>
        <message>
            <source>Network</source>
            <translation>网络</translation>
        </message>
        <message>
            <source>Disk</source>
            <translation>磁盘</translation>
        </message>
        <message>
            <source>Ranks</source>
            <translation>rank 数</translation>
        </message>
        <message>
            <source>Connection</source>
            <translation>连接方式</translation>
        </message>
        <message>
            <source>Agent</source>
            <translation>代理</translation>
        </message>
        <message>
            <source>loopback %1</source>
            <translation>本机回环 %1</translation>
        </message>
        <message>
            <source>GPU %1 %2</source>
            <translation>GPU %1 %2</translation>
        </message>
        <message>
            <source>GPU %1: %2</source>
            <translation>GPU %1：%2</translation>
        </message>
        <message>
            <source>GPUs</source>
            <translation>GPU</translation>
        </message>
        <message>
            <source>GPU use</source>
            <translation>GPU 利用率</translation>
        </message>
        <message>
            <source>GPU memory</source>
            <translation>显存</translation>
        </message>
        <message>
            <source>Hottest</source>
            <translation>最高温度</translation>
        </message>
        <message>
            <source>GPU power</source>
            <translation>GPU 功率</translation>
        </message>
        <message>
            <source>GPU clock</source>
            <translation>GPU 时钟</translation>
        </message>
        <message>
            <source>busy %1, %2</source>
            <translation>繁忙 %1，%2</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::Phase</name>
        <message>
            <source>data</source>
            <translation>数据</translation>
        </message>
        <message>
            <source>forward</source>
            <translation>前向</translation>
        </message>
        <message>
            <source>backward</source>
            <translation>反向</translation>
        </message>
        <message>
            <source>waiting</source>
            <translation>等待</translation>
        </message>
        <message>
            <source>transfer</source>
            <translation>传输</translation>
        </message>
        <message>
            <source>optimizer</source>
            <translation>优化器</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::PlacementModel</name>
        <message>
            <source>Rank</source>
            <translation>rank</translation>
        </message>
        <message>
            <source>Node</source>
            <translation>节点</translation>
        </message>
        <message>
            <source>Device</source>
            <translation>设备</translation>
        </message>
        <message>
            <source>Threads</source>
            <translation>线程</translation>
        </message>
        <message>
            <source>Samples</source>
            <translation>样本</translation>
        </message>
        <message>
            <source>Parameters</source>
            <translation>参数</translation>
        </message>
        <message>
            <source>Optimizer</source>
            <translation>优化器</translation>
        </message>
        <message>
            <source>Gradients</source>
            <translation>梯度</translation>
        </message>
        <message>
            <source>Activations</source>
            <translation>激活</translation>
        </message>
        <message>
            <source>Memory</source>
            <translation>内存</translation>
        </message>
        <message>
            <source>server</source>
            <translation>服务器</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::PlotView</name>
        <message>
            <source>%1, median of %2</source>
            <translation>%1，%2 条线的中位数</translation>
        </message>
        <message>
            <source>median of %1 others</source>
            <translation>其余 %1 条线的中位数</translation>
        </message>
        <message>
            <source>median</source>
            <translation>中位数</translation>
        </message>
        <message>
            <source>half of the lines</source>
            <translation>一半的曲线</translation>
        </message>
        <message>
            <source>all %1 lines</source>
            <translation>全部 %1 条曲线</translation>
        </message>
        <message>
            <source>%1 lines are drawn as their spread. The pale band reaches from the lowest to the highest value; at least half of the lines stay within the dark one. Point at the plot for the nearest line, click to keep it.</source>
            <translation>%1 条曲线以其分布显示：浅色带从最低值到最高值，至少一半的曲线始终在深色带之内。将指针移到图上可查看最近的曲线，点击可将其保留。</translation>
        </message>
        <message>
            <source>%1 (%2)</source>
            <translation>%1（%2）</translation>
        </message>
        <message>
            <source>Data of %1</source>
            <translation>%1的数据</translation>
        </message>
        <message>
            <source>not a number</source>
            <translation>非数值</translation>
        </message>
        <message>
            <source>Show all data</source>
            <translation>显示全部数据</translation>
        </message>
        <message>
            <source>Logarithmic y axis</source>
            <translation>对数 y 轴</translation>
        </message>
        <message>
            <source>Show the data as a table</source>
            <translation>以表格显示数据</translation>
        </message>
        <message>
            <source>Legend</source>
            <translation>图例</translation>
        </message>
        <message>
            <source>Copy picture</source>
            <translation>复制图片</translation>
        </message>
        <message>
            <source>Save picture…</source>
            <translation>保存图片…</translation>
        </message>
        <message>
            <source>Save picture</source>
            <translation>保存图片</translation>
        </message>
        <message>
            <source>Pictures (*.png)</source>
            <translation>图片 (*.png)</translation>
        </message>
        <message>
            <source>Save picture for print…</source>
            <translation>保存打印用图片…</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::NodeLeds</name>
        <message>
            <source>What the grid of nodes shows</source>
            <translation>节点网格显示的内容</translation>
        </message>
        <message>
            <source>Grid of nodes</source>
            <translation>节点网格</translation>
        </message>
        <message>
            <source>A GPU that is slowed down has a white foot; a node or GPU with a problem is crossed out.</source>
            <translation>被降速的 GPU 底部为白色；有问题的节点或 GPU 被划掉。</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::RunPage</name>
        <message>
            <source>The scheduler ended the run's job. It goes on when it has nodes again.</source>
            <translation>调度器结束了运行的作业。重新获得节点后运行将继续。</translation>
        </message>
        <message>
            <source>Keep this page open: closing it cancels the job.</source>
            <translation>请保持此页面打开：关闭会取消该作业。</translation>
        </message>
        <message>
            <source>The run goes on as run %1.</source>
            <translation>运行以 %1 继续。</translation>
        </message>
        <message>
            <source>Changed since the commit</source>
            <translation>自该提交以来的改动</translation>
        </message>
        <message>
            <source>+%1 −%2</source>
            <translation>+%1 −%2</translation>
        </message>
        <message>
            <source>not in the commit</source>
            <translation>不在该提交中</translation>
        </message>
        <message>
            <source>More files</source>
            <translation>其余文件</translation>
        </message>
        <message>
            <source>Without this rank a step would take %1 instead of %2 (steps %3 to %4 replayed, with an error of %5).</source>
            <translation>没有这个 rank，每步只需 %1，而不是 %2（重放第 %3 步到第 %4 步，误差 %5）。</translation>
        </message>
        <message>
            <source>TensorBoard event files</source>
            <translation>TensorBoard 事件文件</translation>
        </message>
        <message>
            <source>Processor time</source>
            <translation>处理器时间</translation>
        </message>
        <message>
            <source>import lockstep</source>
            <translation>import lockstep</translation>
        </message>
        <message>
            <source>Output</source>
            <translation>输出</translation>
        </message>
        <message>
            <source>not read: %1</source>
            <translation>未读取：%1</translation>
        </message>
        <message>
            <source>%1 of %2 ranks</source>
            <translation>%2 个 rank 中的 %1 个</translation>
        </message>
        <message>
            <source>all ranks</source>
            <translation>所有 rank</translation>
        </message>
        <message>
            <source>Sources</source>
            <translation>数据来源</translation>
        </message>
        <message>
            <source>How long the ranks of this program wait is not known.</source>
            <translation>此程序各 rank 的等待时间未知。</translation>
        </message>
        <message>
            <source>Program</source>
            <translation>程序</translation>
        </message>
        <message>
            <source>Restarts</source>
            <translation>重启次数</translation>
        </message>
        <message>
            <source>Lost to failures</source>
            <translation>故障损失的时间</translation>
        </message>
        <message>
            <source>The run has been unreachable since %1.</source>
            <translation>自 %1 起无法访问此运行。</translation>
        </message>
        <message>
            <source>Its coordinator does not answer. Lockstep keeps trying.</source>
            <translation>协调此运行的节点没有响应；会不断重新询问。</translation>
        </message>
        <message>
            <source>Giving up ends the run in the history and on all nodes that answer. Other nodes follow when they are connected again.</source>
            <translation>放弃会在历史记录中和有响应的节点上结束此运行；其余节点一旦重新连接也会结束它。</translation>
        </message>
        <message>
            <source>Give up</source>
            <translation>放弃</translation>
        </message>
        <message>
            <source>training</source>
            <translation>训练</translation>
        </message>
        <message>
            <source>samples per second</source>
            <translation>每秒样本数</translation>
        </message>
        <message>
            <source>in</source>
            <translation>入</translation>
        </message>
        <message>
            <source>out</source>
            <translation>出</translation>
        </message>
        <message>
            <source>loopback</source>
            <translation>回环</translation>
        </message>
        <message>
            <source>read</source>
            <translation>读</translation>
        </message>
        <message>
            <source>written</source>
            <translation>写</translation>
        </message>
        <message>
            <source>reading</source>
            <translation>读取中</translation>
        </message>
        <message>
            <source>rank %1</source>
            <translation>rank %1</translation>
        </message>
        <message>
            <source>Run %1</source>
            <translation>运行 %1</translation>
        </message>
        <message>
            <source>of %1 · epoch %2</source>
            <translation>共 %1 · 第 %2 轮</translation>
        </message>
        <message>
            <source>epoch %1</source>
            <translation>第 %1 轮</translation>
        </message>
        <message>
            <source>evaluated %1</source>
            <translation>评估 %1</translation>
        </message>
        <message>
            <source>evaluated, epoch %1</source>
            <translation>评估，第 %1 轮</translation>
        </message>
        <message>
            <source>%1/s</source>
            <translation>%1/秒</translation>
        </message>
        <message>
            <source>samples</source>
            <translation>样本</translation>
        </message>
        <message>
            <source>predicted %1</source>
            <translation>预测 %1</translation>
        </message>
        <message>
            <source>elapsed</source>
            <translation>已用时</translation>
        </message>
        <message>
            <source>evaluation</source>
            <translation>评估</translation>
        </message>
        <message>
            <source>A run of one rank has no stragglers.</source>
            <translation>只有一个 rank，无需等待。</translation>
        </message>
        <message>
            <source>Its process was suspended %1 of the time.</source>
            <translation>它的进程有 %1 的时间被暂停。</translation>
        </message>
        <message>
            <source>A CPU quota throttled it %1 of the time.</source>
            <translation>CPU 配额使它有 %1 的时间无法运行。</translation>
        </message>
        <message>
            <source>Other processes used its cores %1 of the time.</source>
            <translation>它的核心有 %1 的时间被其他任务占用。</translation>
        </message>
        <message>
            <source>Its process did not run %1 of the time.</source>
            <translation>它的进程有 %1 的时间没有运行。</translation>
        </message>
        <message>
            <source>It had %1 cores.</source>
            <translation>它得到了 %1 个核心。</translation>
        </message>
        <message>
            <source>Since step %1, mostly in %2.</source>
            <translation>自第 %1 步起，主要在%2阶段。</translation>
        </message>
        <message>
            <source>Since step %1: %2 instead of %3, round trip %4 instead of %5.</source>
            <translation>从第 %1 步起：速率 %2（通常 %3），往返时间 %4（通常 %5）。</translation>
        </message>
        <message>
            <source>All slow links are %1&apos;s.</source>
            <translation>所有慢速链路都属于 %1。</translation>
        </message>
        <message>
            <source>%1 % of its packets are sent again.</source>
            <translation>其中 %1 % 的数据包被重发。</translation>
        </message>
        <message>
            <source>At its usual rate a step would take %1 instead of %2.</source>
            <translation>若速率如常，每步只需 %1，而不是 %2。</translation>
        </message>
        <message>
            <source>At its usual rate a step would still take %1.</source>
            <translation>即使速率如常，每步仍需 %1。</translation>
        </message>
        <message>
            <source>Without the %1 slow ranks a step would still take %2.</source>
            <translation>即使没有这 %1 个慢 rank，每步仍需 %2。</translation>
        </message>
        <message>
            <source>Without the %1 slow ranks a step would take %2 instead of %3.</source>
            <translation>没有这 %1 个慢 rank，每步只需 %2，而不是 %3。</translation>
        </message>
        <message>
            <source>Without this rank a step would still take %1.</source>
            <translation>即使没有这个 rank，每步仍需 %1。</translation>
        </message>
        <message>
            <source>Without this rank a step would still take %1 (steps %2 to %3 replayed, with an error of %4).</source>
            <translation>即使没有这个 rank，每步仍需 %1（重放第 %2 步到第 %3 步，误差 %4）。</translation>
        </message>
        <message>
            <source>Without this rank a step would take %1 instead of %2.</source>
            <translation>没有这个 rank，每步只需 %1，而不是 %2。</translation>
        </message>
        <message>
            <source>Run</source>
            <translation>运行</translation>
        </message>
        <message>
            <source>State</source>
            <translation>状态</translation>
        </message>
        <message>
            <source>Started</source>
            <translation>开始时间</translation>
        </message>
        <message>
            <source>Finished</source>
            <translation>结束时间</translation>
        </message>
        <message>
            <source>Error</source>
            <translation>错误</translation>
        </message>
        <message>
            <source>Configuration</source>
            <translation>配置</translation>
        </message>
        <message>
            <source>Model</source>
            <translation>模型</translation>
        </message>
        <message>
            <source>Strategy</source>
            <translation>策略</translation>
        </message>
        <message>
            <source>Cluster</source>
            <translation>集群</translation>
        </message>
        <message>
            <source>Ranks</source>
            <translation>rank 数</translation>
        </message>
        <message>
            <source>Communicator</source>
            <translation>通信方式</translation>
        </message>
        <message>
            <source>Resumed from</source>
            <translation>恢复自</translation>
        </message>
        <message>
            <source>Identity</source>
            <translation>标识</translation>
        </message>
        <message>
            <source>Plan</source>
            <translation>计划</translation>
        </message>
        <message>
            <source>Agent</source>
            <translation>代理</translation>
        </message>
        <message>
            <source>Weights</source>
            <translation>权重</translation>
        </message>
        <message>
            <source>Model file</source>
            <translation>模型文件</translation>
        </message>
        <message>
            <source>Stop</source>
            <translation>停止</translation>
        </message>
        <message>
            <source>Kill</source>
            <translation>终止</translation>
        </message>
        <message>
            <source>Kill all workers, without a checkpoint</source>
            <translation>立即结束所有工作进程，不写检查点</translation>
        </message>
        <message>
            <source>Step</source>
            <translation>步</translation>
        </message>
        <message>
            <source>Loss</source>
            <translation>损失</translation>
        </message>
        <message>
            <source>Throughput</source>
            <translation>吞吐量</translation>
        </message>
        <message>
            <source>Step time</source>
            <translation>步时</translation>
        </message>
        <message>
            <source>Time</source>
            <translation>时间</translation>
        </message>
        <message>
            <source>Progress</source>
            <translation>进度</translation>
        </message>
        <message>
            <source>Overview</source>
            <translation>概览</translation>
        </message>
        <message>
            <source>Nodes</source>
            <translation>节点</translation>
        </message>
        <message>
            <source>Logs</source>
            <translation>日志</translation>
        </message>
        <message>
            <source>Parts of the run</source>
            <translation>运行的各部分</translation>
        </message>
        <message>
            <source>Smoothing</source>
            <translation>平滑</translation>
        </message>
        <message>
            <source>Pause the plots; data keep arriving</source>
            <translation>暂停绘图；数据继续接收</translation>
        </message>
        <message>
            <source>Logarithmic x axis</source>
            <translation>对数 x 轴</translation>
        </message>
        <message>
            <source>No data yet.</source>
            <translation>暂无数据。</translation>
        </message>
        <message>
            <source>step</source>
            <translation>步</translation>
        </message>
        <message>
            <source>samples/s</source>
            <translation>样本/秒</translation>
        </message>
        <message>
            <source>CPU</source>
            <translation>CPU</translation>
        </message>
        <message>
            <source>time</source>
            <translation>时间</translation>
        </message>
        <message>
            <source>Memory</source>
            <translation>内存</translation>
        </message>
        <message>
            <source>Network</source>
            <translation>网络</translation>
        </message>
        <message>
            <source>Disk</source>
            <translation>磁盘</translation>
        </message>
        <message>
            <source>Step time: measured above, predicted below</source>
            <translation>步时：上为实测，下为预测</translation>
        </message>
        <message>
            <source>Step time of each rank</source>
            <translation>各 rank 的步时</translation>
        </message>
        <message>
            <source>Step time of each rank, as a table</source>
            <translation>各 rank 的步时（表格）</translation>
        </message>
        <message>
            <source>Show the data as a table</source>
            <translation>以表格显示数据</translation>
        </message>
        <message>
            <source>Slowest rank</source>
            <translation>最慢的 rank</translation>
        </message>
        <message>
            <source>finishing</source>
            <translation>正在收尾</translation>
        </message>
        <message>
            <source>Its GPU %1 was thermally throttled %2 of the time.</source>
            <translation>它的 GPU %1 有 %2 的时间因过热而降速。</translation>
        </message>
        <message>
            <source>Its GPU %1 was held at its power limit %2 of the time.</source>
            <translation>它的 GPU %1 有 %2 的时间受功率上限限制。</translation>
        </message>
        <message>
            <source>The PCIe link of its GPU %1 has %2 of %3 lanes.</source>
            <translation>它的 GPU %1 的 PCIe 链路只有 %2 条通道，共 %3 条。</translation>
        </message>
        <message>
            <source>GPU use</source>
            <translation>GPU 利用率</translation>
        </message>
        <message>
            <source>GPU memory</source>
            <translation>显存</translation>
        </message>
        <message>
            <source>GPU temperature</source>
            <translation>GPU 温度</translation>
        </message>
        <message>
            <source>GPU power</source>
            <translation>GPU 功率</translation>
        </message>
        <message>
            <source>SM clock</source>
            <translation>SM 时钟</translation>
        </message>
        <message>
            <source>PCIe</source>
            <translation>PCIe</translation>
        </message>
        <message>
            <source>NVLink</source>
            <translation>NVLink</translation>
        </message>
        <message>
            <source>GPU throttled</source>
            <translation>GPU 受限</translation>
        </message>
        <message>
            <source>Resume…</source>
            <translation>续训…</translation>
        </message>
        <message>
            <source>Rerun…</source>
            <translation>重跑…</translation>
        </message>
        <message>
            <source>Clone…</source>
            <translation>克隆…</translation>
        </message>
        <message>
            <source>Continue from the last checkpoint, as a new run</source>
            <translation>从最后一个检查点继续，作为新的运行</translation>
        </message>
        <message>
            <source>Launch the same spec on the same cluster again</source>
            <translation>在同一集群上再次启动同一规格</translation>
        </message>
        <message>
            <source>Open this run's spec as a new model and launch it</source>
            <translation>把此运行的规格作为新模型打开并启动</translation>
        </message>
        <message>
            <source>no step for %1 s</source>
            <translation>%1 秒没有完成步</translation>
        </message>
        <message>
            <source>No straggler: all ranks are near the median.</source>
            <translation>没有拖后腿的 rank：所有 rank 都接近中位数。</translation>
        </message>
        <message>
            <source>No step has completed since step %1.</source>
            <translation>自第 %1 步以来没有完成步。</translation>
        </message>
        <message>
            <source>Follow: show all data as they arrive</source>
            <translation>跟随：数据到达时显示全部</translation>
        </message>
        <message>
            <source>Breakdown appears after the first steps.</source>
            <translation>时间分解在最初几步之后出现。</translation>
        </message>
        <message>
            <source>Finish this step, save a checkpoint, stop</source>
            <translation>完成这一步，保存检查点，然后停止</translation>
        </message>
        <message>
            <source>Steps</source>
            <translation>各步</translation>
        </message>
        <message>
            <source>Traffic</source>
            <translation>通信量</translation>
        </message>
        <message>
            <source>Dashboard</source>
            <translation>仪表板</translation>
        </message>
        <message>
            <source>Learning rate</source>
            <translation>学习率</translation>
        </message>
        <message>
            <source>Gradient norm</source>
            <translation>梯度范数</translation>
        </message>
        <message>
            <source>per second</source>
            <translation>每秒</translation>
        </message>
        <message>
            <source>No data yet. training.watch.every says in which steps it is measured.</source>
            <translation>还没有数据。training.watch.every 决定在哪些步测量它。</translation>
        </message>
        <message>
            <source>tokens per second</source>
            <translation>每秒词元数</translation>
        </message>
        <message>
            <source>learning rate</source>
            <translation>学习率</translation>
        </message>
        <message>
            <source>gradient norm</source>
            <translation>梯度范数</translation>
        </message>
        <message>
            <source>update ratio</source>
            <translation>更新比</translation>
        </message>
        <message>
            <source>Samples</source>
            <translation>样本</translation>
        </message>
        <message>
            <source>Tokens</source>
            <translation>词元</translation>
        </message>
        <message>
            <source>tokens</source>
            <translation>词元</translation>
        </message>
        <message>
            <source>Label the x axis in steps, samples or tokens</source>
            <translation>横轴以步、样本或词元标注</translation>
        </message>
        <message>
            <source>Debug a rank: stacks, processes, kernel messages, a debugger</source>
            <translation>调试 rank：调用栈、进程、内核消息、调试器</translation>
        </message>
        <message>
            <source>Exclude a node from the run</source>
            <translation>从该运行中排除一个节点</translation>
        </message>
        <message>
            <source>It read %1 pages a second from a disk (swap or mapped files).</source>
            <translation>它每秒从磁盘读取 %1 个内存页（交换区或映射文件）。</translation>
        </message>
        <message>
            <source>It waited %1 a step for its data files, the others %2.</source>
            <translation>它每步等待数据文件 %1，其他 rank 为 %2。</translation>
        </message>
        <message>
            <source>Its node's disk was busy %1 of the time, the others' %2.</source>
            <translation>所在节点的磁盘有 %1 的时间繁忙，其他节点为 %2。</translation>
        </message>
        <message>
            <source>Its batches had %1 elements, the others' %2.</source>
            <translation>它每步的批次有 %1 个元素，其他 rank 为 %2 个。</translation>
        </message>
        <message>
            <source>Its GPU %1 ran at %2 MHz, the others' at %3 MHz.</source>
            <translation>它的 GPU %1 以 %2 MHz 运行，其他为 %3 MHz。</translation>
        </message>
        <message>
            <source>Stragglers</source>
            <translation>慢 rank</translation>
        </message>
        <message>
            <source>All events of steps %1 to %2 are being recorded.</source>
            <translation>正在记录第 %1 步到第 %2 步的全部事件。</translation>
        </message>
        <message>
            <source>The run was asked for a checkpoint.</source>
            <translation>已请求此运行保存检查点。</translation>
        </message>
        <message>
            <source>The checkpoint of step %1 is saved.</source>
            <translation>第 %1 步的检查点已保存。</translation>
        </message>
        <message>
            <source>Record all events of the next 20 steps (lockstep profile)</source>
            <translation>记录接下来 20 步的全部事件（lockstep profile）</translation>
        </message>
        <message>
            <source>Take a checkpoint and restart all ranks from it (lockstep restart)</source>
            <translation>写一个检查点，并从它重启所有 rank（lockstep restart）</translation>
        </message>
        <message>
            <source>Start the program again on all ranks (lockstep restart)</source>
            <translation>在所有 rank 上重新启动程序（lockstep restart）</translation>
        </message>
        <message>
            <source>All events of steps %1 to %2 are recorded.</source>
            <translation>已记录第 %1 步到第 %2 步的全部事件。</translation>
        </message>
        <message>
            <source>Select one of them in the heat map.</source>
            <translation>请在热力图中选择其中一步。</translation>
        </message>
        <message>
            <source>Divide the batch by the speed of the ranks (lockstep rebalance)</source>
            <translation>按各 rank 的速度划分批次（lockstep rebalance）</translation>
        </message>
        <message>
            <source>Faster strategy: find one for the nodes and links as measured, and resume with it (lockstep advise --run --apply)</source>
            <translation>更快的策略：按实测的节点和链路查找策略，并用它续训（lockstep advise --run --apply）</translation>
        </message>
        <message>
            <source>Files</source>
            <translation>文件</translation>
        </message>
        <message>
            <source>Fetching</source>
            <translation>正在取回</translation>
        </message>
        <message>
            <source>Fetched</source>
            <translation>已取回</translation>
        </message>
        <message>
            <source>not yet</source>
            <translation>尚未</translation>
        </message>
        <message>
            <source>%1 of %2</source>
            <translation>%1 / %2</translation>
        </message>
        <message>
            <source>%1, %2</source>
            <translation>%1 个，%2</translation>
        </message>
        <message>
            <source>Folder</source>
            <translation>文件夹</translation>
        </message>
        <message>
            <source>Not fetched</source>
            <translation>未取回</translation>
        </message>
        <message>
            <source>Effective training time</source>
            <translation>有效训练时间</translation>
        </message>
        <message>
            <source>Documents</source>
            <translation>文档</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::RunPhase</name>
        <message>
            <source>recovering</source>
            <translation>恢复中</translation>
        </message>
        <message>
            <source>unreachable since %1</source>
            <translation>自 %1 起无法访问</translation>
        </message>
        <message>
            <source>unknown</source>
            <translation>未知</translation>
        </message>
        <message>
            <source>launching</source>
            <translation>启动中</translation>
        </message>
        <message>
            <source>prepared</source>
            <translation>已就绪</translation>
        </message>
        <message>
            <source>running</source>
            <translation>运行中</translation>
        </message>
        <message>
            <source>stopping</source>
            <translation>停止中</translation>
        </message>
        <message>
            <source>succeeded</source>
            <translation>成功</translation>
        </message>
        <message>
            <source>failed</source>
            <translation>失败</translation>
        </message>
        <message>
            <source>stopped</source>
            <translation>已停止</translation>
        </message>
        <message>
            <source>expired</source>
            <translation>已过期</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::RunTableModel</name>
        <message>
            <source>Energy</source>
            <translation>能耗</translation>
        </message>
        <message>
            <source>%1/s</source>
            <translation>%1/秒</translation>
        </message>
        <message>
            <source>predicted %1</source>
            <translation>预测 %1</translation>
        </message>
        <message>
            <source>Run</source>
            <translation>运行</translation>
        </message>
        <message>
            <source>State</source>
            <translation>状态</translation>
        </message>
        <message>
            <source>Created</source>
            <translation>创建时间</translation>
        </message>
        <message>
            <source>Strategy</source>
            <translation>策略</translation>
        </message>
        <message>
            <source>Cluster</source>
            <translation>集群</translation>
        </message>
        <message>
            <source>Ranks</source>
            <translation>rank 数</translation>
        </message>
        <message>
            <source>Steps</source>
            <translation>步数</translation>
        </message>
        <message>
            <source>Loss</source>
            <translation>损失</translation>
        </message>
        <message>
            <source>Samples</source>
            <translation>样本</translation>
        </message>
        <message>
            <source>Step time</source>
            <translation>步时</translation>
        </message>
        <message>
            <source>Notes</source>
            <translation>备注</translation>
        </message>
        <message>
            <source>Quality</source>
            <translation>质量</translation>
        </message>
        <message>
            <source>Tags</source>
            <translation>标签</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::SecretDialog</name>
        <message>
            <source>Passphrase of a key</source>
            <translation>密钥口令</translation>
        </message>
        <message>
            <source>The key %1 for %2 is locked.</source>
            <translation>%1 已加密，用于登录 %2。</translation>
        </message>
        <message>
            <source>Password</source>
            <translation>密码</translation>
        </message>
        <message>
            <source>%1 asks for a password.</source>
            <translation>%1 需要密码。</translation>
        </message>
        <message>
            <source>%1 asks</source>
            <translation>%1 询问</translation>
        </message>
        <message>
            <source>Secret</source>
            <translation>口令</translation>
        </message>
        <message>
            <source>Not accepted. Try again.</source>
            <translation>未被接受，请重试。</translation>
        </message>
        <message>
            <source>Unlock</source>
            <translation>解锁</translation>
        </message>
        <message>
            <source>Cancel</source>
            <translation>取消</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::SpecDocument</name>
        <message>
            <source>Recover unsaved text</source>
            <translation>恢复未保存的文本</translation>
        </message>
        <message>
            <source>Typing</source>
            <translation>输入</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::SpecPage</name>
        <message>
            <source>Line %1: %2</source>
            <translation>第 %1 行：%2</translation>
        </message>
        <message>
            <source>Spec text</source>
            <translation>规格文本</translation>
        </message>
        <message>
            <source>Tab indents. After Escape, Tab leaves the text.</source>
            <translation>Tab 键缩进。按 Esc 键后，Tab 键离开文本。</translation>
        </message>
        <message>
            <source>Problems in the spec</source>
            <translation>规格中的问题</translation>
        </message>
        <message>
            <source>%1: %2</source>
            <translation>%1：%2</translation>
        </message>
        <message>
            <source>Invalid YAML: form locked</source>
            <translation>YAML 无效：表单已锁定</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::OptionFields</name>
        <message>
            <source>No limit</source>
            <translation>不限</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::WelcomePage</name>
        <message>
            <source>Learn</source>
            <translation>学习</translation>
        </message>
        <message>
            <source>Lessons on distributed training, shown by the simulator.</source>
            <translation>分布式训练的课程，由模拟器演示。</translation>
        </message>
        <message>
            <source>Lockstep</source>
            <translation>Lockstep</translation>
        </message>
        <message>
            <source>Plan a training run, predict it, run exactly what was planned, and see the measured beside the predicted.</source>
            <translation>规划一次训练，预测它，严格按计划运行，并将实测与预测并列查看。</translation>
        </message>
        <message>
            <source>Start</source>
            <translation>开始</translation>
        </message>
        <message>
            <source>Run on this machine</source>
            <translation>在本机运行</translation>
        </message>
        <message>
            <source>Train the Fashion-MNIST example on three local nodes.</source>
            <translation>用三个本机节点训练 Fashion-MNIST 示例。</translation>
        </message>
        <message>
            <source>New cluster</source>
            <translation>新建集群</translation>
        </message>
        <message>
            <source>Add hosts from your SSH config and deploy the agent to them.</source>
            <translation>从 SSH 配置添加主机，并向其部署代理。</translation>
        </message>
        <message>
            <source>A cluster or a run spec in YAML. Files can also be dropped on the window.</source>
            <translation>YAML 格式的集群或运行规格。也可将文件拖入窗口。</translation>
        </message>
        <message>
            <source>Examples</source>
            <translation>示例</translation>
        </message>
        <message>
            <source>Recent files</source>
            <translation>最近的文件</translation>
        </message>
        <message>
            <source>Files that you open are listed here.</source>
            <translation>打开过的文件会显示在这里。</translation>
        </message>
        <message>
            <source>Welcome</source>
            <translation>欢迎</translation>
        </message>
        <message>
            <source>Version</source>
            <translation>版本</translation>
        </message>
        <message>
            <source>This machine</source>
            <translation>本机</translation>
        </message>
        <message>
            <source>Name</source>
            <translation>名称</translation>
        </message>
        <message>
            <source>Cores</source>
            <translation>核心数</translation>
        </message>
        <message>
            <source>System</source>
            <translation>系统</translation>
        </message>
        <message>
            <source>Kernel</source>
            <translation>内核</translation>
        </message>
        <message>
            <source>Data folder</source>
            <translation>数据文件夹</translation>
        </message>
        <message>
            <source>New model…</source>
            <translation>新建模型…</translation>
        </message>
        <message>
            <source>Start from an MLP, CNN, ResNet, GPT or CTR model, or from nothing.</source>
            <translation>从 MLP、CNN、ResNet、GPT 或 CTR 模型开始，或从零开始。</translation>
        </message>
        <message>
            <source>Open a file…</source>
            <translation>打开文件…</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::Gpu</name>
        <message>
            <source>%1 MHz</source>
            <translation>%1 MHz</translation>
        </message>
        <message>
            <source>%1 of %2 MHz</source>
            <translation>%1 / %2 MHz</translation>
        </message>
        <message>
            <source>%1 of %2</source>
            <translation>%1 / %2</translation>
        </message>
        <message>
            <source>Memory busy</source>
            <translation>显存忙碌</translation>
        </message>
        <message>
            <source>SM clock</source>
            <translation>SM 时钟</translation>
        </message>
        <message>
            <source>Memory clock</source>
            <translation>显存时钟</translation>
        </message>
        <message>
            <source>Performance state</source>
            <translation>性能状态</translation>
        </message>
        <message>
            <source>PCIe link</source>
            <translation>PCIe 链路</translation>
        </message>
        <message>
            <source>%1 of %2 lanes, generation %3 of %4</source>
            <translation>通道 %1 / %2，代 %3 / %4</translation>
        </message>
        <message>
            <source>%1 of %2 lanes</source>
            <translation>通道 %1 / %2</translation>
        </message>
        <message>
            <source>NVLinks</source>
            <translation>NVLink 链路</translation>
        </message>
        <message>
            <source>Memory errors</source>
            <translation>显存错误</translation>
        </message>
        <message>
            <source>%1 corrected, %2 not</source>
            <translation>已纠正 %1，未纠正 %2</translation>
        </message>
        <message>
            <source>Driver errors</source>
            <translation>驱动程序错误</translation>
        </message>
        <message>
            <source>%1, the last Xid %2</source>
            <translation>%1 次，最近为 Xid %2</translation>
        </message>
        <message>
            <source>Busy</source>
            <translation>忙碌</translation>
        </message>
        <message>
            <source>Memory</source>
            <translation>显存</translation>
        </message>
        <message>
            <source>Temperature</source>
            <translation>温度</translation>
        </message>
        <message>
            <source>Power</source>
            <translation>功率</translation>
        </message>
        <message>
            <source>PCIe in</source>
            <translation>PCIe 接收</translation>
        </message>
        <message>
            <source>PCIe out</source>
            <translation>PCIe 发送</translation>
        </message>
        <message>
            <source>NVLink in</source>
            <translation>NVLink 接收</translation>
        </message>
        <message>
            <source>NVLink out</source>
            <translation>NVLink 发送</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::PreferencesDialog</name>
        <message>
            <source>Preferences</source>
            <translation>首选项</translation>
        </message>
        <message>
            <source>Theme</source>
            <translation>主题</translation>
        </message>
        <message>
            <source>Language</source>
            <translation>语言</translation>
        </message>
        <message>
            <source>Light</source>
            <translation>浅色</translation>
        </message>
        <message>
            <source>Dark</source>
            <translation>深色</translation>
        </message>
        <message>
            <source>Close</source>
            <translation>关闭</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::ShortcutsDialog</name>
        <message>
            <source>Keyboard shortcuts</source>
            <translation>键盘快捷键</translation>
        </message>
        <message>
            <source>Command</source>
            <translation>命令</translation>
        </message>
        <message>
            <source>Keys</source>
            <translation>按键</translation>
        </message>
        <message>
            <source>Close</source>
            <translation>关闭</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::SpecDiffModel</name>
        <message>
            <source>Field</source>
            <translation>字段</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::PicturesDialog</name>
        <message>
            <source>Pictures to a data set</source>
            <translation>图片转换为数据集</translation>
        </message>
        <message>
            <source>Makes a file of images and one of labels from JPEG and PNG pictures. The folder has a folder of pictures for each class.</source>
            <translation>把 JPEG 和 PNG 图片转换为一个图像文件和一个标签文件。该文件夹中，每个子文件夹为一类图片。</translation>
        </message>
        <message>
            <source>Folder of the pictures</source>
            <translation>图片文件夹</translation>
        </message>
        <message>
            <source>Choose the folder of the pictures</source>
            <translation>选择图片文件夹</translation>
        </message>
        <message>
            <source>Choose the folder of the pictures.</source>
            <translation>请选择图片文件夹。</translation>
        </message>
        <message>
            <source>Choose a folder</source>
            <translation>选择文件夹</translation>
        </message>
        <message>
            <source>Files&apos; names begin with</source>
            <translation>文件名开头</translation>
        </message>
        <message>
            <source>Choose how the files&apos; names begin</source>
            <translation>选择文件名开头</translation>
        </message>
        <message>
            <source>Say how the files&apos; names begin.</source>
            <translation>请填写文件名的开头。</translation>
        </message>
        <message>
            <source>Classes as in</source>
            <translation>类别沿用</translation>
        </message>
        <message>
            <source>Choose the file of classes</source>
            <translation>选择类别文件</translation>
        </message>
        <message>
            <source>The -classes.txt of another set; empty: by name</source>
            <translation>另一数据集的 -classes.txt；留空：按名称排列</translation>
        </message>
        <message>
            <source>Height and width</source>
            <translation>高和宽</translation>
        </message>
        <message>
            <source>Height</source>
            <translation>高</translation>
        </message>
        <message>
            <source>Width</source>
            <translation>宽</translation>
        </message>
        <message>
            <source>Grey</source>
            <translation>灰度</translation>
        </message>
        <message>
            <source>Leave out damaged pictures</source>
            <translation>跳过损坏的图片</translation>
        </message>
        <message>
            <source>Browse…</source>
            <translation>浏览…</translation>
        </message>
        <message>
            <source>Save as</source>
            <translation>另存为</translation>
        </message>
        <message>
            <source>Choose a file</source>
            <translation>选择文件</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::NewModelDialog</name>
        <message>
            <source>Training text</source>
            <translation>训练文本</translation>
        </message>
        <message>
            <source>Training table</source>
            <translation>训练表格</translation>
        </message>
        <message>
            <source>Plain text; the last tenth is used for evaluation</source>
            <translation>任意纯文本；最后十分之一用于评估</translation>
        </message>
        <message>
            <source>Rows of label, numbers and categories, as in Criteo's click logs; `lockstep make-data ctr` generates one</source>
            <translation>每行一个标签、若干数值和类别，如 Criteo 的点击日志；`lockstep make-data ctr` 可生成一份</translation>
        </message>
        <message>
            <source>Give the model a name.</source>
            <translation>请为模型命名。</translation>
        </message>
        <message>
            <source>Choose where the model is saved.</source>
            <translation>请选择模型的保存位置。</translation>
        </message>
        <message>
            <source>The file %1 exists already.</source>
            <translation>文件 %1 已存在。</translation>
        </message>
        <message>
            <source>Choose the file to train on.</source>
            <translation>请选择训练用的文件。</translation>
        </message>
        <message>
            <source>The file %1 does not exist.</source>
            <translation>文件 %1 尚不存在。</translation>
        </message>
        <message>
            <source>Save as</source>
            <translation>另存为</translation>
        </message>
        <message>
            <source>Choose a file</source>
            <translation>选择文件</translation>
        </message>
        <message>
            <source>Specs (*.yaml)</source>
            <translation>规格文件 (*.yaml)</translation>
        </message>
        <message>
            <source>All files (*)</source>
            <translation>所有文件 (*)</translation>
        </message>
        <message>
            <source>%1 cannot be written: %2. Save it under another name.</source>
            <translation>无法写入 %1：%2。请换一个名称保存。</translation>
        </message>
        <message>
            <source>New model</source>
            <translation>新建模型</translation>
        </message>
        <message>
            <source>A complete run spec to start from. Everything in it can be changed later.</source>
            <translation>作为起点的完整运行规格，其中一切以后都可更改。</translation>
        </message>
        <message>
            <source>Kind of model</source>
            <translation>模型种类</translation>
        </message>
        <message>
            <source>Name</source>
            <translation>名称</translation>
        </message>
        <message>
            <source>Browse…</source>
            <translation>浏览…</translation>
        </message>
        <message>
            <source>Create</source>
            <translation>创建</translation>
        </message>
        <message>
            <source>Cancel</source>
            <translation>取消</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::PinModel</name>
        <message>
            <source>Layer</source>
            <translation>层</translation>
        </message>
        <message>
            <source>Stage</source>
            <translation>阶段</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::FindBar</name>
        <message>
            <source>Find in the text</source>
            <translation>在文本中查找</translation>
        </message>
        <message>
            <source>Previous match</source>
            <translation>上一处</translation>
        </message>
        <message>
            <source>Next match</source>
            <translation>下一处</translation>
        </message>
        <message>
            <source>Close</source>
            <translation>关闭</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::CandidateModel</name>
        <message>
            <source>Strategy</source>
            <translation>策略</translation>
        </message>
        <message>
            <source>Estimate</source>
            <translation>估计</translation>
        </message>
        <message>
            <source>Measured</source>
            <translation>实测</translation>
        </message>
        <message>
            <source>Memory</source>
            <translation>内存</translation>
        </message>
        <message>
            <source>%1: too much</source>
            <translation>%1：超出可用内存</translation>
        </message>
        <message>
            <source>Traffic</source>
            <translation>通信量</translation>
        </message>
        <message>
            <source>Step time: rough estimate from built-in costs</source>
            <translation>步时，根据内置开销的粗略估计</translation>
        </message>
        <message>
            <source>Step time: from a benchmark of the nodes</source>
            <translation>步时，来自节点的基准测试</translation>
        </message>
        <message>
            <source>Peak memory per rank</source>
            <translation>每个 rank 的内存峰值</translation>
        </message>
        <message>
            <source>Traffic per rank per step</source>
            <translation>每个 rank 每步的通信量</translation>
        </message>
        <message>
            <source>Busiest link</source>
            <translation>最繁忙链路</translation>
        </message>
        <message>
            <source>Traffic per step of the busiest link between two nodes, both ways</source>
            <translation>两节点间最繁忙链路每步的双向通信量</translation>
        </message>
        <message>
            <source>Bubble</source>
            <translation>气泡</translation>
        </message>
        <message>
            <source>Energy</source>
            <translation>能耗</translation>
        </message>
        <message>
            <source>Bubble: the part of a step in which ranks wait for each other, their mean</source>
            <translation>气泡：每步中各 rank 互相等待的时间占比的平均值</translation>
        </message>
        <message>
            <source>Energy per step of all hosts</source>
            <translation>所有主机每步的能耗</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::NewModel</name>
        <message>
            <source>Own program</source>
            <translation>自己的程序</translation>
        </message>
        <message>
            <source>A program in PyTorch, TensorFlow, JAX or anything else, as it is. Expects train.py beside the new file.</source>
            <translation>PyTorch、TensorFlow、JAX 或其他框架的程序，原样运行。新文件旁应有 train.py。</translation>
        </message>
        <message>
            <source>MLP</source>
            <translation>MLP</translation>
        </message>
        <message>
            <source>CNN</source>
            <translation>CNN</translation>
        </message>
        <message>
            <source>ResNet</source>
            <translation>ResNet</translation>
        </message>
        <message>
            <source>GPT</source>
            <translation>GPT</translation>
        </message>
        <message>
            <source>CTR</source>
            <translation>CTR</translation>
        </message>
        <message>
            <source>Empty</source>
            <translation>空模型</translation>
        </message>
        <message>
            <source>Dense layers. Starts with the Fashion-MNIST images.</source>
            <translation>全连接层。初始使用 Fashion-MNIST 图像。</translation>
        </message>
        <message>
            <source>Convolutions and pooling. Starts with the Fashion-MNIST images.</source>
            <translation>卷积与池化。初始使用 Fashion-MNIST 图像。</translation>
        </message>
        <message>
            <source>Residual blocks with batch norm. Starts with the Fashion-MNIST images.</source>
            <translation>带批归一化的残差块。初始使用 Fashion-MNIST 图像。</translation>
        </message>
        <message>
            <source>Transformer blocks that predict the next byte of a text.</source>
            <translation>预测文本下一个字节的 Transformer 块。</translation>
        </message>
        <message>
            <source>Embedding tables and dense layers that predict clicks.</source>
            <translation>预测点击的嵌入表与全连接层。</translation>
        </message>
        <message>
            <source>No layers: build the model in the form or as text.</source>
            <translation>没有任何层：在表单中或以文本搭建模型。</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::StepsPanel</name>
        <message>
            <source>Click a cell to see the step&apos;s timeline and the rank&apos;s logs.</source>
            <translation>点击单元格以查看该步的时间线和该 rank 的日志。</translation>
        </message>
        <message>
            <source>rank %1</source>
            <translation>rank %1</translation>
        </message>
        <message>
            <source>difference from the median rank, % of the step time</source>
            <translation>与中位数 rank 之差，占步时的百分比</translation>
        </message>
        <message>
            <source>difference from the median rank, % of its clock</source>
            <translation>与中位数 rank 之差，占其时钟的百分比</translation>
        </message>
        <message>
            <source>seconds</source>
            <translation>秒</translation>
        </message>
        <message>
            <source>step %1</source>
            <translation>第 %1 步</translation>
        </message>
        <message>
            <source>no data</source>
            <translation>无数据</translation>
        </message>
        <message>
            <source>greatest of steps %1 to %2</source>
            <translation>第 %1 至 %2 步中的最大值</translation>
        </message>
        <message>
            <source>lowest of steps %1 to %2</source>
            <translation>第 %1 至 %2 步中的最小值</translation>
        </message>
        <message>
            <source>%1 of the step time below the median rank</source>
            <translation>比中位数 rank 少步时的 %1</translation>
        </message>
        <message>
            <source>%1 of the step time above the median rank</source>
            <translation>比中位数 rank 多步时的 %1</translation>
        </message>
        <message>
            <source>%1 below the median rank</source>
            <translation>比中位数 rank 低 %1</translation>
        </message>
        <message>
            <source>%1 above the median rank</source>
            <translation>比中位数 rank 高 %1</translation>
        </message>
        <message>
            <source>Timeline</source>
            <translation>时间线</translation>
        </message>
        <message>
            <source>Timeline of step %1</source>
            <translation>第 %1 步的时间线</translation>
        </message>
        <message>
            <source>Timeline of slow step %1</source>
            <translation>慢步（第 %1 步）的时间线</translation>
        </message>
        <message>
            <source>Timeline of slow step %1, the recorded step nearest to step %2</source>
            <translation>慢步（第 %1 步）的时间线：离第 %2 步最近的已记录步</translation>
        </message>
        <message>
            <source>Timeline of step %1, the sampled step nearest to step %2</source>
            <translation>第 %1 步的时间线：离第 %2 步最近的采样步</translation>
        </message>
        <message>
            <source>Predicted timeline (no step has been sampled yet)</source>
            <translation>预测的时间线（尚无采样步）</translation>
        </message>
        <message>
            <source>Click a span for its details and the arrival time of each rank.</source>
            <translation>点击一段以查看其内容和各 rank 的到达时刻。</translation>
        </message>
        <message>
            <source>Step time</source>
            <translation>步时</translation>
        </message>
        <message>
            <source>Data</source>
            <translation>数据</translation>
        </message>
        <message>
            <source>Forward</source>
            <translation>前向</translation>
        </message>
        <message>
            <source>Backward</source>
            <translation>反向</translation>
        </message>
        <message>
            <source>Waiting</source>
            <translation>等待</translation>
        </message>
        <message>
            <source>Transfer</source>
            <translation>传输</translation>
        </message>
        <message>
            <source>Optimizer</source>
            <translation>优化器</translation>
        </message>
        <message>
            <source>Compute</source>
            <translation>计算</translation>
        </message>
        <message>
            <source>Communication</source>
            <translation>通信</translation>
        </message>
        <message>
            <source>GPU clock</source>
            <translation>GPU 时钟</translation>
        </message>
        <message>
            <source>vs. median rank</source>
            <translation>与中位数 rank 相比</translation>
        </message>
        <message>
            <source>in seconds</source>
            <translation>以秒计</translation>
        </message>
        <message>
            <source>in MHz</source>
            <translation>以 MHz 计</translation>
        </message>
        <message>
            <source>by rank</source>
            <translation>按 rank</translation>
        </message>
        <message>
            <source>by node</source>
            <translation>按节点</translation>
        </message>
        <message>
            <source>slowest first</source>
            <translation>最慢的在前</translation>
        </message>
        <message>
            <source>Rank × step</source>
            <translation>rank × 步</translation>
        </message>
        <message>
            <source>Measure</source>
            <translation>度量</translation>
        </message>
        <message>
            <source>Scale</source>
            <translation>标度</translation>
        </message>
        <message>
            <source>Rank order</source>
            <translation>rank 的顺序</translation>
        </message>
        <message>
            <source>Show all ranks and steps</source>
            <translation>显示所有 rank 和步</translation>
        </message>
        <message>
            <source>Show the data as a table</source>
            <translation>以表格显示数据</translation>
        </message>
        <message>
            <source>Heat map, rank × step</source>
            <translation>rank × 步的热图</translation>
        </message>
        <message>
            <source>The heat map appears after the first steps.</source>
            <translation>热图在最初几步之后出现。</translation>
        </message>
        <message>
            <source>Seconds per rank and step</source>
            <translation>各 rank 每步的秒数</translation>
        </message>
        <message>
            <source>MHz per rank and step</source>
            <translation>各 rank 每步的 MHz</translation>
        </message>
        <message>
            <source>Show prediction</source>
            <translation>显示预测</translation>
        </message>
        <message>
            <source>Show the whole step</source>
            <translation>显示整步</translation>
        </message>
        <message>
            <source>Timeline of a step</source>
            <translation>一步的时间线</translation>
        </message>
        <message>
            <source>No step has been sampled yet. By default, every 50th step and slow ones are sampled.</source>
            <translation>尚无采样步。默认每 50 步采样一次，较慢的步也会采样。</translation>
        </message>
        <message>
            <source>Show median rank</source>
            <translation>显示中位数 rank</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::TimelineView</name>
        <message>
            <source>the last to arrive</source>
            <translation>最后到达</translation>
        </message>
        <message>
            <source>last to arrive: %1</source>
            <translation>最后到达：%1</translation>
        </message>
        <message>
            <source>predicted</source>
            <translation>预测</translation>
        </message>
        <message>
            <source>to %1 (%2) in %3</source>
            <translation>发往 %1（%2），用时 %3</translation>
        </message>
        <message>
            <source>from %1 (%2) in %3</source>
            <translation>来自 %1（%2），用时 %3</translation>
        </message>
        <message>
            <source>, the receiver waited %1</source>
            <translation>，接收方等待 %1</translation>
        </message>
        <message>
            <source>, sent %1 before the receive</source>
            <translation>，在接收开始前 %1 发出</translation>
        </message>
        <message>
            <source>%1 more messages</source>
            <translation>另有 %1 条消息</translation>
        </message>
        <message>
            <source>median rank</source>
            <translation>中位数 rank</translation>
        </message>
        <message>
            <source>median, stage %1</source>
            <translation>中位数，阶段 %1</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::TimelineStack</name>
        <message>
            <source>Show the data as a table</source>
            <translation>以表格显示数据</translation>
        </message>
        <message>
            <source>Data of %1</source>
            <translation>%1的数据</translation>
        </message>
        <message>
            <source>Sort by this column</source>
            <translation>按此列排序</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::TimelineTableModel</name>
        <message>
            <source>compute stream</source>
            <translation>计算流</translation>
        </message>
        <message>
            <source>communication stream</source>
            <translation>通信流</translation>
        </message>
        <message>
            <source>Rank</source>
            <translation>Rank</translation>
        </message>
        <message>
            <source>Lane</source>
            <translation>泳道</translation>
        </message>
        <message>
            <source>Operation</source>
            <translation>操作</translation>
        </message>
        <message>
            <source>Start</source>
            <translation>开始</translation>
        </message>
        <message>
            <source>Duration</source>
            <translation>时长</translation>
        </message>
        <message>
            <source>Waits for</source>
            <translation>等待对象</translation>
        </message>
        <message>
            <source>Bytes</source>
            <translation>字节数</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::StepTableModel</name>
        <message>
            <source>rank %1</source>
            <translation>rank %1</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::TrafficModel</name>
        <message>
            <source>rank %1</source>
            <translation>rank %1</translation>
        </message>
        <message>
            <source>%1 sends %2 to %3 per step</source>
            <translation>%1 每步向 %3 发送 %2</translation>
        </message>
        <message>
            <source>%1 sends nothing to %2</source>
            <translation>%1 不向 %2 发送数据</translation>
        </message>
        <message>
            <source>; planned: %1</source>
            <translation>；计划：%1</translation>
        </message>
        <message>
            <source>to %1</source>
            <translation>到 %1</translation>
        </message>
        <message>
            <source>from %1</source>
            <translation>从 %1</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::NodeTrafficModel</name>
        <message>
            <source>Node</source>
            <translation>节点</translation>
        </message>
        <message>
            <source>Sent (planned)</source>
            <translation>发送（计划）</translation>
        </message>
        <message>
            <source>Sent (measured)</source>
            <translation>发送（实测）</translation>
        </message>
        <message>
            <source>Received (planned)</source>
            <translation>接收（计划）</translation>
        </message>
        <message>
            <source>Received (measured)</source>
            <translation>接收（实测）</translation>
        </message>
        <message>
            <source>Loopback (measured)</source>
            <translation>回环（实测）</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::TrafficPanel</name>
        <message>
            <source>Planned traffic between ranks, bytes per step</source>
            <translation>rank 之间每步的计划字节数</translation>
        </message>
        <message>
            <source>Traffic with other nodes, bytes per step</source>
            <translation>与其他节点之间每步的字节数</translation>
        </message>
        <message>
            <source>No traffic: the plan has one rank, or its ranks exchange nothing.</source>
            <translation>没有通信：计划只有一个 rank，或各 rank 之间没有交换。</translation>
        </message>
        <message>
            <source>The history does not have the plan of this run yet.</source>
            <translation>历史记录中尚无此运行的计划。</translation>
        </message>
        <message>
            <source>Measured: the mean rate over all network interfaces of the node in the last five minutes, times the step time. Nodes on the same machine use the loopback interface or shared memory; traffic in shared memory is not counted.</source>
            <translation>实测：节点所有网络接口最近五分钟的平均速率乘以步时。同一台机器上的节点使用回环接口或共享内存；共享内存中的通信不计入。</translation>
        </message>
        <message>
            <source>The run has one node: it has no other to send to.</source>
            <translation>该运行只有一个节点，没有可发送的对象。</translation>
        </message>
        <message>
            <source>The measured traffic appears after the first steps.</source>
            <translation>前几步之后将显示实测通信量。</translation>
        </message>
        <message>
            <source>No traffic between nodes was recorded. TCP connections are counted; shared memory and RDMA are not.</source>
            <translation>没有记录到节点之间的通信。只统计 TCP 连接；共享内存和 RDMA 不计入。</translation>
        </message>
        <message>
            <source>Measured traffic between nodes, bytes per step</source>
            <translation>节点之间每步的实测字节数</translation>
        </message>
        <message>
            <source>The matrix is shown for up to %1 nodes.</source>
            <translation>最多为 %1 个节点显示此矩阵。</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::RunLogs</name>
        <message>
            <source>All ranks</source>
            <translation>所有 rank</translation>
        </message>
        <message>
            <source>Supervisors</source>
            <translation>监管进程</translation>
        </message>
        <message>
            <source>rank %1</source>
            <translation>rank %1</translation>
        </message>
        <message>
            <source>Find in logs</source>
            <translation>在日志中查找</translation>
        </message>
        <message>
            <source>Level</source>
            <translation>级别</translation>
        </message>
        <message>
            <source>All lines</source>
            <translation>所有行</translation>
        </message>
        <message>
            <source>Warnings and errors</source>
            <translation>警告和错误</translation>
        </message>
        <message>
            <source>Errors</source>
            <translation>错误</translation>
        </message>
        <message>
            <source>Log lines</source>
            <translation>日志行</translation>
        </message>
        <message>
            <source>node %1</source>
            <translation>节点 %1</translation>
        </message>
        <message>
            <source>Rank or node</source>
            <translation>rank 或节点</translation>
        </message>
        <message>
            <source>Reading the log of the whole run…</source>
            <translation>正在读取整个运行的日志…</translation>
        </message>
        <message>
            <source>No error in the lines of %1</source>
            <translation>%1 的日志行中没有错误</translation>
        </message>
        <message>
            <source>No error in the log of the run</source>
            <translation>此运行的日志中没有错误</translation>
        </message>
        <message>
            <source>All lines of the run</source>
            <translation>此运行的所有日志行</translation>
        </message>
        <message>
            <source>The newest %1 lines of the run</source>
            <translation>此运行最新的 %1 行日志</translation>
        </message>
        <message>
            <source>Lines around %1, from the run's history</source>
            <translation>%1 前后的日志行，来自此运行的历史记录</translation>
        </message>
        <message>
            <source>Search of the whole run: the newest %1 matching lines; older ones are not shown</source>
            <translation>搜索整个运行：最新的 %1 行匹配；更早的不显示</translation>
        </message>
        <message>
            <source>Search of the whole run: matching lines: %1</source>
            <translation>搜索整个运行：匹配行数：%1</translation>
        </message>
        <message>
            <source>First error</source>
            <translation>首个错误</translation>
        </message>
        <message>
            <source>Go to the first error in the log of the run, or of the chosen rank or node</source>
            <translation>转到此运行（或所选 rank 或节点）日志中的首个错误</translation>
        </message>
        <message>
            <source>Newest lines</source>
            <translation>最新日志行</translation>
        </message>
        <message>
            <source>Show the newest lines, and new ones as they arrive</source>
            <translation>显示最新的日志行，并随新行到来而更新</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::PreflightDialog</name>
        <message>
            <source>Pre-flight</source>
            <translation>运行前检查</translation>
        </message>
        <message>
            <source>Nodes and links are measured and compared with earlier results on this cluster.</source>
            <translation>测量各节点和链路，并与该集群以前的结果比较。</translation>
        </message>
        <message>
            <source>Measure again</source>
            <translation>再次测量</translation>
        </message>
        <message>
            <source>Close</source>
            <translation>关闭</translation>
        </message>
        <message>
            <source>Measured values</source>
            <translation>测量值</translation>
        </message>
        <message>
            <source>Progress</source>
            <translation>进度</translation>
        </message>
        <message>
            <source>Measuring…</source>
            <translation>正在测量…</translation>
        </message>
        <message>
            <source>Measured %1.</source>
            <translation>已测量 %1。</translation>
        </message>
        <message>
            <source>Nothing is weak.</source>
            <translation>没有偏弱的项。</translation>
        </message>
        <message>
            <source>Weak values: %1.</source>
            <translation>偏弱的项：%1。</translation>
        </message>
        <message>
            <source>Compared among each other: there are no earlier results.</source>
            <translation>没有以前的结果，各项相互比较。</translation>
        </message>
        <message>
            <source>Compared with earlier results: %1.</source>
            <translation>用于比较的以前结果：%1 次。</translation>
        </message>
        <message>
            <source>Connecting the nodes…</source>
            <translation>正在连接节点…</translation>
        </message>
        <message>
            <source>Values</source>
            <translation>测量值</translation>
        </message>
        <message>
            <source>Links</source>
            <translation>链路</translation>
        </message>
        <message>
            <source>Versions</source>
            <translation>版本</translation>
        </message>
        <message>
            <source>Results</source>
            <translation>结果</translation>
        </message>
        <message>
            <source>Bandwidth</source>
            <translation>带宽</translation>
        </message>
        <message>
            <source>Round trip</source>
            <translation>往返时间</translation>
        </message>
        <message>
            <source>Measure</source>
            <translation>度量</translation>
        </message>
        <message>
            <source>Links, from the node of a row to that of a column</source>
            <translation>链路，从行的节点到列的节点</translation>
        </message>
        <message>
            <source>No link was measured. That takes two nodes that reach each other.</source>
            <translation>没有测量任何链路：需要两个能相互到达的节点。</translation>
        </message>
        <message>
            <source>relative to the median</source>
            <translation>相对于中位数</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::LinkMatrixModel</name>
        <message>
            <source>link %1 → %2 was not measured</source>
            <translation>未测量链路 %1 → %2</translation>
        </message>
        <message>
            <source>link %1 → %2: %3, the median is %4</source>
            <translation>链路 %1 → %2：%3，中位数为 %4</translation>
        </message>
        <message>
            <source>to %1</source>
            <translation>到 %1</translation>
        </message>
        <message>
            <source>from %1</source>
            <translation>从 %1</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::VersionModel</name>
        <message>
            <source>More versions that differ: %1.</source>
            <translation>其他不同的版本：%1 项。</translation>
        </message>
        <message>
            <source>unknown</source>
            <translation>未知</translation>
        </message>
        <message>
            <source>Node</source>
            <translation>节点</translation>
        </message>
        <message>
            <source>Agent</source>
            <translation>代理</translation>
        </message>
        <message>
            <source>Kernel</source>
            <translation>内核</translation>
        </message>
        <message>
            <source>GPU driver</source>
            <translation>GPU 驱动程序</translation>
        </message>
        <message>
            <source>CUDA</source>
            <translation>CUDA</translation>
        </message>
        <message>
            <source>NCCL</source>
            <translation>NCCL</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::PreflightModel</name>
        <message>
            <source>Matrix products</source>
            <translation>矩阵乘法</translation>
        </message>
        <message>
            <source>Memory reads</source>
            <translation>内存读取</translation>
        </message>
        <message>
            <source>Free disk</source>
            <translation>可用磁盘</translation>
        </message>
        <message>
            <source>Clock skew</source>
            <translation>时钟偏差</translation>
        </message>
        <message>
            <source>GPU matrix products</source>
            <translation>GPU 矩阵乘法</translation>
        </message>
        <message>
            <source>GPU memory reads</source>
            <translation>GPU 显存读取</translation>
        </message>
        <message>
            <source>GPU PCIe lanes</source>
            <translation>GPU PCIe 通道</translation>
        </message>
        <message>
            <source>All-reduce bus bandwidth</source>
            <translation>All-reduce 总线带宽</translation>
        </message>
        <message>
            <source>all nodes</source>
            <translation>所有节点</translation>
        </message>
        <message>
            <source>%1, GPU %2</source>
            <translation>%1，GPU %2</translation>
        </message>
        <message>
            <source>Bandwidth</source>
            <translation>带宽</translation>
        </message>
        <message>
            <source>Round trip</source>
            <translation>往返时间</translation>
        </message>
        <message>
            <source>weak</source>
            <translation>偏弱</translation>
        </message>
        <message>
            <source>weaker than the others</source>
            <translation>弱于其他</translation>
        </message>
        <message>
            <source>good</source>
            <translation>良好</translation>
        </message>
        <message>
            <source>nothing to compare with</source>
            <translation>无可比较</translation>
        </message>
        <message>
            <source>Measure</source>
            <translation>项目</translation>
        </message>
        <message>
            <source>Node</source>
            <translation>节点</translation>
        </message>
        <message>
            <source>To</source>
            <translation>到</translation>
        </message>
        <message>
            <source>Value</source>
            <translation>值</translation>
        </message>
        <message>
            <source>Usual</source>
            <translation>通常</translation>
        </message>
        <message>
            <source>Result</source>
            <translation>结果</translation>
        </message>
        <message>
            <source>Disk writes</source>
            <translation>磁盘写入</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::AlertRuleModel</name>
        <message>
            <source>Rule</source>
            <translation>规则</translation>
        </message>
        <message>
            <source>Threshold</source>
            <translation>阈值</translation>
        </message>
        <message>
            <source>Window</source>
            <translation>窗口</translation>
        </message>
        <message>
            <source>Hold</source>
            <translation>持续时间</translation>
        </message>
        <message>
            <source>Notify</source>
            <translation>通知</translation>
        </message>
        <message>
            <source>Command</source>
            <translation>命令</translation>
        </message>
        <message>
            <source>Webhook</source>
            <translation>Webhook</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::AlertRulesDialog</name>
        <message>
            <source>%1. Saving replaces this file.</source>
            <translation>%1。保存将替换此文件。</translation>
        </message>
        <message>
            <source>Testing…</source>
            <translation>正在测试…</translation>
        </message>
        <message>
            <source>The test alert was delivered.</source>
            <translation>测试告警已送达。</translation>
        </message>
        <message>
            <source>Alert rules</source>
            <translation>告警规则</translation>
        </message>
        <message>
            <source>An alert is raised once its threshold has been exceeded for the hold time, and is over once the value is back. Alerts appear in the messages.</source>
            <translation>超过阈值并达到持续时间后产生告警，数值恢复后告警结束。告警显示在消息中。</translation>
        </message>
        <message>
            <source>Desktop notifications</source>
            <translation>桌面通知</translation>
        </message>
        <message>
            <source>Command</source>
            <translation>命令</translation>
        </message>
        <message>
            <source>Program and arguments; the alert is a line of JSON on its input</source>
            <translation>程序和参数；告警以一行 JSON 写入其输入</translation>
        </message>
        <message>
            <source>Webhook</source>
            <translation>Webhook</translation>
        </message>
        <message>
            <source>https://… that the same JSON is posted to</source>
            <translation>https://…，同样的 JSON 发送到此处</translation>
        </message>
        <message>
            <source>Test command</source>
            <translation>测试命令</translation>
        </message>
        <message>
            <source>Test webhook</source>
            <translation>测试 webhook</translation>
        </message>
        <message>
            <source>Restore defaults</source>
            <translation>恢复默认值</translation>
        </message>
        <message>
            <source>Restores the rules; the actions stay</source>
            <translation>恢复规则；动作保持不变</translation>
        </message>
        <message>
            <source>Save</source>
            <translation>保存</translation>
        </message>
        <message>
            <source>Cancel</source>
            <translation>取消</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::Metrics</name>
        <message>
            <source>Loss</source>
            <translation>损失</translation>
        </message>
        <message>
            <source>Learning rate</source>
            <translation>学习率</translation>
        </message>
        <message>
            <source>Gradient norm</source>
            <translation>梯度范数</translation>
        </message>
        <message>
            <source>Update ratio</source>
            <translation>更新比</translation>
        </message>
        <message>
            <source>Samples per second</source>
            <translation>每秒样本数</translation>
        </message>
        <message>
            <source>Tokens per second</source>
            <translation>每秒词元数</translation>
        </message>
        <message>
            <source>Samples seen</source>
            <translation>已训练样本数</translation>
        </message>
        <message>
            <source>Tokens seen</source>
            <translation>已训练词元数</translation>
        </message>
        <message>
            <source>Loss scale</source>
            <translation>损失缩放</translation>
        </message>
        <message>
            <source>Skipped updates</source>
            <translation>跳过的更新</translation>
        </message>
        <message>
            <source>Evaluated loss</source>
            <translation>评估损失</translation>
        </message>
        <message>
            <source>Evaluated metric</source>
            <translation>评估指标</translation>
        </message>
        <message>
            <source>Loss of the epoch</source>
            <translation>每轮的损失</translation>
        </message>
        <message>
            <source>Evaluated loss of the epoch</source>
            <translation>每轮的评估损失</translation>
        </message>
        <message>
            <source>CPU</source>
            <translation>CPU</translation>
        </message>
        <message>
            <source>memory</source>
            <translation>内存</translation>
        </message>
        <message>
            <source>memory, total</source>
            <translation>内存总量</translation>
        </message>
        <message>
            <source>free disk space</source>
            <translation>磁盘剩余空间</translation>
        </message>
        <message>
            <source>network in</source>
            <translation>网络接收</translation>
        </message>
        <message>
            <source>network out</source>
            <translation>网络发送</translation>
        </message>
        <message>
            <source>loopback</source>
            <translation>环回</translation>
        </message>
        <message>
            <source>disk read</source>
            <translation>磁盘读取</translation>
        </message>
        <message>
            <source>disk write</source>
            <translation>磁盘写入</translation>
        </message>
        <message>
            <source>disk use</source>
            <translation>磁盘占用</translation>
        </message>
        <message>
            <source>clock offset</source>
            <translation>时钟偏差</translation>
        </message>
        <message>
            <source>clock uncertainty</source>
            <translation>时钟不确定度</translation>
        </message>
        <message>
            <source>sent</source>
            <translation>已发送</translation>
        </message>
        <message>
            <source>rate while sending</source>
            <translation>发送时的速率</translation>
        </message>
        <message>
            <source>time spent sending</source>
            <translation>发送所占时间</translation>
        </message>
        <message>
            <source>round trip</source>
            <translation>往返时间</translation>
        </message>
        <message>
            <source>use</source>
            <translation>使用率</translation>
        </message>
        <message>
            <source>memory use</source>
            <translation>显存读写占比</translation>
        </message>
        <message>
            <source>temperature</source>
            <translation>温度</translation>
        </message>
        <message>
            <source>power</source>
            <translation>功率</translation>
        </message>
        <message>
            <source>SM clock</source>
            <translation>SM 时钟</translation>
        </message>
        <message>
            <source>memory clock</source>
            <translation>显存时钟</translation>
        </message>
        <message>
            <source>PCIe in</source>
            <translation>PCIe 接收</translation>
        </message>
        <message>
            <source>PCIe out</source>
            <translation>PCIe 发送</translation>
        </message>
        <message>
            <source>NVLink in</source>
            <translation>NVLink 接收</translation>
        </message>
        <message>
            <source>NVLink out</source>
            <translation>NVLink 发送</translation>
        </message>
        <message>
            <source>throttled</source>
            <translation>降频</translation>
        </message>
        <message>
            <source>slowed</source>
            <translation>减速</translation>
        </message>
        <message>
            <source>corrected memory errors</source>
            <translation>已纠正的显存错误</translation>
        </message>
        <message>
            <source>uncorrected memory errors</source>
            <translation>未纠正的显存错误</translation>
        </message>
        <message>
            <source>driver errors</source>
            <translation>驱动错误</translation>
        </message>
        <message>
            <source>step time</source>
            <translation>每步时间</translation>
        </message>
        <message>
            <source>data</source>
            <translation>数据</translation>
        </message>
        <message>
            <source>forward</source>
            <translation>前向</translation>
        </message>
        <message>
            <source>backward</source>
            <translation>反向</translation>
        </message>
        <message>
            <source>waiting</source>
            <translation>等待</translation>
        </message>
        <message>
            <source>transfer</source>
            <translation>传输</translation>
        </message>
        <message>
            <source>optimizer</source>
            <translation>优化器</translation>
        </message>
        <message>
            <source>staleness</source>
            <translation>陈旧度</translation>
        </message>
        <message>
            <source>CPU cores</source>
            <translation>CPU 核数</translation>
        </message>
        <message>
            <source>all nodes</source>
            <translation>所有节点</translation>
        </message>
        <message>
            <source>all ranks</source>
            <translation>所有 rank</translation>
        </message>
        <message>
            <source>all GPUs</source>
            <translation>所有 GPU</translation>
        </message>
        <message>
            <source>rank %1</source>
            <translation>rank %1</translation>
        </message>
        <message>
            <source>GPU %1</source>
            <translation>GPU %1</translation>
        </message>
        <message>
            <source>%1, evaluated</source>
            <translation>%1（评估）</translation>
        </message>
        <message>
            <source>process not running</source>
            <translation>进程未运行</translation>
        </message>
        <message>
            <source>GPU clock</source>
            <translation>GPU 时钟</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::DashboardCard</name>
        <message>
            <source>time</source>
            <translation>时间</translation>
        </message>
        <message>
            <source>epoch</source>
            <translation>轮</translation>
        </message>
        <message>
            <source>step</source>
            <translation>步</translation>
        </message>
        <message>
            <source>first %1 of %2</source>
            <translation>%2 个中的前 %1 个</translation>
        </message>
        <message>
            <source>No series of this run matches %1 yet.</source>
            <translation>此运行还没有与 %1 匹配的曲线。</translation>
        </message>
        <message>
            <source>Move %1</source>
            <translation>移动 %1</translation>
        </message>
        <message>
            <source>Drag to move. Arrow keys move too; Shift and arrow keys resize; Delete removes.</source>
            <translation>拖动即可移动；方向键也可移动，Shift 加方向键调整大小，Delete 键移除。</translation>
        </message>
        <message>
            <source>Options of %1</source>
            <translation>%1 的选项</translation>
        </message>
        <message>
            <source>Edit…</source>
            <translation>编辑…</translation>
        </message>
        <message>
            <source>Move earlier</source>
            <translation>前移</translation>
        </message>
        <message>
            <source>Move later</source>
            <translation>后移</translation>
        </message>
        <message>
            <source>Wider</source>
            <translation>加宽</translation>
        </message>
        <message>
            <source>Narrower</source>
            <translation>变窄</translation>
        </message>
        <message>
            <source>Higher</source>
            <translation>加高</translation>
        </message>
        <message>
            <source>Lower</source>
            <translation>变矮</translation>
        </message>
        <message>
            <source>Remove</source>
            <translation>移除</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::DashboardView</name>
        <message>
            <source>columns</source>
            <translation>列数</translation>
        </message>
        <message>
            <source>Default dashboard</source>
            <translation>默认仪表板</translation>
        </message>
        <message>
            <source>My dashboard</source>
            <translation>我的仪表板</translation>
        </message>
        <message>
            <source>My dashboard %1</source>
            <translation>我的仪表板 %1</translation>
        </message>
        <message>
            <source>logarithmic y axis</source>
            <translation>对数纵轴</translation>
        </message>
        <message>
            <source>edit of a plot</source>
            <translation>编辑图</translation>
        </message>
        <message>
            <source>new plot</source>
            <translation>新的图</translation>
        </message>
        <message>
            <source>move of a plot</source>
            <translation>移动图</translation>
        </message>
        <message>
            <source>size of a plot</source>
            <translation>图的大小</translation>
        </message>
        <message>
            <source>removal of a plot</source>
            <translation>移除图</translation>
        </message>
        <message>
            <source>New dashboard…</source>
            <translation>新建仪表板…</translation>
        </message>
        <message>
            <source>New dashboard</source>
            <translation>新建仪表板</translation>
        </message>
        <message>
            <source>Create</source>
            <translation>新建</translation>
        </message>
        <message>
            <source>Duplicate…</source>
            <translation>复制…</translation>
        </message>
        <message>
            <source>Duplicate the dashboard</source>
            <translation>复制仪表板</translation>
        </message>
        <message>
            <source>Duplicate</source>
            <translation>复制</translation>
        </message>
        <message>
            <source>Rename…</source>
            <translation>重命名…</translation>
        </message>
        <message>
            <source>Rename the dashboard</source>
            <translation>重命名仪表板</translation>
        </message>
        <message>
            <source>Rename</source>
            <translation>重命名</translation>
        </message>
        <message>
            <source>name of a dashboard</source>
            <translation>仪表板名称</translation>
        </message>
        <message>
            <source>Delete</source>
            <translation>删除</translation>
        </message>
        <message>
            <source>removal of a dashboard</source>
            <translation>删除仪表板</translation>
        </message>
        <message>
            <source>Dashboard</source>
            <translation>仪表板</translation>
        </message>
        <message>
            <source>Add plot…</source>
            <translation>添加图…</translation>
        </message>
        <message>
            <source>Columns</source>
            <translation>列数</translation>
        </message>
        <message>
            <source>New, duplicate, rename or delete dashboards</source>
            <translation>新建、复制、重命名或删除仪表板</translation>
        </message>
        <message>
            <source>This dashboard has no plots</source>
            <translation>此仪表板还没有图</translation>
        </message>
        <message>
            <source>Add plots of any metric of the run: of the training, of a rank, of a node or a GPU. The dashboard is kept by its name and shows every run.</source>
            <translation>可以添加此运行任何指标的图：训练、rank、节点或 GPU 的。仪表板按名称保存，可用于任何运行。</translation>
        </message>
        <message>
            <source>There is one of this name already.</source>
            <translation>已有同名的项。</translation>
        </message>
        <message>
            <source>The name is too long.</source>
            <translation>名称过长。</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::MetricDialog</name>
        <message>
            <source>Select metrics in the list, or type their names. * stands for any node, rank or GPU.</source>
            <translation>在列表中选择指标，或输入它们的名称。* 代表任何节点、rank 或 GPU。</translation>
        </message>
        <message>
            <source>A plot can have %1 names of %2 characters.</source>
            <translation>一张图最多可有 %1 个名称，每个不超过 %2 个字符。</translation>
        </message>
        <message>
            <source>Metrics over steps, over epochs and over time cannot share a plot.</source>
            <translation>按步、按轮和按时间的指标不能放在同一张图中。</translation>
        </message>
        <message>
            <source>Metrics in different units, such as percent and bytes, cannot share a plot.</source>
            <translation>单位不同的指标（如百分比与字节）不能共用一张图。</translation>
        </message>
        <message>
            <source>This run has no such series. The plot stays empty until there is one.</source>
            <translation>此运行没有这样的曲线；出现之前此图是空的。</translation>
        </message>
        <message numerus="yes">
            <source>%n series of this run.</source>
            <translation>
                <numerusform>此运行的 %n 条曲线。</numerusform>
            </translation>
        </message>
        <message>
            <source>Add a plot</source>
            <translation>添加图</translation>
        </message>
        <message>
            <source>Edit the plot</source>
            <translation>编辑图</translation>
        </message>
        <message>
            <source>Add</source>
            <translation>添加</translation>
        </message>
        <message>
            <source>Apply</source>
            <translation>应用</translation>
        </message>
        <message>
            <source>Cancel</source>
            <translation>取消</translation>
        </message>
        <message>
            <source>Search metrics</source>
            <translation>搜索指标</translation>
        </message>
        <message>
            <source>Metrics of the run</source>
            <translation>此运行的指标</translation>
        </message>
        <message>
            <source>Series</source>
            <translation>曲线</translation>
        </message>
        <message>
            <source>Title</source>
            <translation>标题</translation>
        </message>
        <message>
            <source>From its series</source>
            <translation>取自曲线</translation>
        </message>
        <message>
            <source>Logarithmic y axis</source>
            <translation>对数纵轴</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::MetricModel</name>
        <message>
            <source>%1 (not in this run)</source>
            <translation>%1（此运行没有）</translation>
        </message>
        <message numerus="yes">
            <source>%1 (%n series)</source>
            <translation>
                <numerusform>%1（%n 条曲线）</numerusform>
            </translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::NameDialog</name>
        <message>
            <source>Cancel</source>
            <translation>取消</translation>
        </message>
        <message>
            <source>Name</source>
            <translation>名称</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::TagsDialog</name>
        <message>
            <source>Tags of the run</source>
            <translation>运行的标签</translation>
        </message>
        <message>
            <source>Tags of %1 runs</source>
            <translation>%1 个运行的标签</translation>
        </message>
        <message>
            <source>Tags group runs: the filter tag:good shows those with the tag good.</source>
            <translation>标签用于归类运行：筛选 tag:good 显示带有标签 good 的运行。</translation>
        </message>
        <message>
            <source>Tags</source>
            <translation>标签</translation>
        </message>
        <message>
            <source>&amp;New tags</source>
            <translation>新标签(&amp;N)</translation>
        </message>
        <message>
            <source>separated by spaces</source>
            <translation>以空格分隔</translation>
        </message>
        <message>
            <source>New tags</source>
            <translation>新标签</translation>
        </message>
        <message>
            <source>Apply</source>
            <translation>应用</translation>
        </message>
        <message>
            <source>Cancel</source>
            <translation>取消</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::Export</name>
        <message>
            <source>Exporting %1</source>
            <translation>正在导出 %1</translation>
        </message>
        <message>
            <source>Folder for the CSV files</source>
            <translation>存放 CSV 文件的文件夹</translation>
        </message>
        <message>
            <source>Folder for the reports</source>
            <translation>报告所在文件夹</translation>
        </message>
        <message>
            <source>Export as CSV</source>
            <translation>导出为 CSV</translation>
        </message>
        <message>
            <source>Export report</source>
            <translation>导出报告</translation>
        </message>
        <message>
            <source>CSV (*.csv)</source>
            <translation>CSV (*.csv)</translation>
        </message>
        <message>
            <source>HTML (*.html)</source>
            <translation>HTML (*.html)</translation>
        </message>
        <message>
            <source>Folder for TensorBoard (--logdir)</source>
            <translation>TensorBoard 的文件夹（--logdir）</translation>
        </message>
        <message>
            <source>OTLP in JSON (*.otlp)</source>
            <translation>JSON 编码的 OTLP (*.otlp)</translation>
        </message>
        <message>
            <source>Export for OpenTelemetry</source>
            <translation>为 OpenTelemetry 导出</translation>
        </message>
        <message>
            <source>Folder for the OTLP files</source>
            <translation>存放 OTLP 文件的文件夹</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::Page</name>
        <message>
            <source>Exported to %1</source>
            <translation>已导出到 %1</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::Picture</name>
        <message>
            <source>PNG (*.png)</source>
            <translation>PNG (*.png)</translation>
        </message>
        <message>
            <source>SVG (*.svg)</source>
            <translation>SVG (*.svg)</translation>
        </message>
        <message>
            <source>PDF (*.pdf)</source>
            <translation>PDF (*.pdf)</translation>
        </message>
        <message>
            <source>Save picture</source>
            <translation>保存图片</translation>
        </message>
        <message>
            <source>The picture was not saved</source>
            <translation>图片未保存</translation>
        </message>
        <message>
            <source>Copy picture</source>
            <translation>复制图片</translation>
        </message>
        <message>
            <source>Save picture…</source>
            <translation>保存图片…</translation>
        </message>
        <message>
            <source>Save picture for print…</source>
            <translation>保存打印用图片…</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::LayerGraphView</name>
        <message>
            <source>input</source>
            <translation>输入</translation>
        </message>
        <message>
            <source>input %1</source>
            <translation>输入 %1</translation>
        </message>
        <message>
            <source>categories %1</source>
            <translation>类别 %1</translation>
        </message>
        <message>
            <source>loss</source>
            <translation>损失</translation>
        </message>
        <message>
            <source>loss: %1</source>
            <translation>损失：%1</translation>
        </message>
        <message>
            <source>%1 · %2 parameters</source>
            <translation>%1 · %2 个参数</translation>
        </message>
        <message>
            <source>output %1 per rank</source>
            <translation>每个 rank 输出 %1</translation>
        </message>
        <message>
            <source>state %1 · output %2 per rank</source>
            <translation>每个 rank 状态 %1 · 输出 %2</translation>
        </message>
        <message>
            <source>output %1 per sample</source>
            <translation>每样本输出 %1</translation>
        </message>
        <message>
            <source>output %1</source>
            <translation>输出 %1</translation>
        </message>
        <message>
            <source>stage %1</source>
            <translation>阶段 %1</translation>
        </message>
        <message>
            <source>takes the table of %1 as its weight</source>
            <translation>以 %1 的表作为权重</translation>
        </message>
        <message>
            <source>its table is the weight of %1</source>
            <translation>其表是 %1 的权重</translation>
        </message>
        <message>
            <source>Layer graph</source>
            <translation>层图</translation>
        </message>
        <message>
            <source>tied weights</source>
            <translation>绑定的权重</translation>
        </message>
        <message>
            <source>S%1</source>
            <comment>stage</comment>
            <translation>S%1</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::GraphPanel</name>
        <message>
            <source>Not planned: %1</source>
            <translation>未能规划：%1</translation>
        </message>
        <message>
            <source>%1 stages</source>
            <translation>%1 个阶段</translation>
        </message>
        <message>
            <source>samples per rank at a time: %1</source>
            <translation>每个 rank 一次处理的样本：%1</translation>
        </message>
        <message>
            <source>Not planned: the spec has problems</source>
            <translation>未规划：规格存在问题</translation>
        </message>
        <message>
            <source>Find a layer</source>
            <translation>查找层</translation>
        </message>
        <message>
            <source>Previous match</source>
            <translation>上一个匹配</translation>
        </message>
        <message>
            <source>Next match</source>
            <translation>下一个匹配</translation>
        </message>
        <message>
            <source>Zoom in</source>
            <translation>放大</translation>
        </message>
        <message>
            <source>Zoom in (Ctrl++)</source>
            <translation>放大（Ctrl++）</translation>
        </message>
        <message>
            <source>Zoom out</source>
            <translation>缩小</translation>
        </message>
        <message>
            <source>Zoom out (Ctrl+-)</source>
            <translation>缩小（Ctrl+-）</translation>
        </message>
        <message>
            <source>Show everything</source>
            <translation>显示全部</translation>
        </message>
        <message>
            <source>Show everything (Ctrl+0)</source>
            <translation>显示全部（Ctrl+0）</translation>
        </message>
        <message>
            <source>Planned for</source>
            <translation>规划用于</translation>
        </message>
        <message>
            <source> ranks</source>
            <translation> 个 rank</translation>
        </message>
        <message>
            <source>Ranks that the model is planned for</source>
            <translation>规划模型所用的 rank 数</translation>
        </message>
        <message>
            <source>Stages and memory are those of a plan on so many CPU ranks of one node</source>
            <translation>阶段与内存来自在单个节点上用这么多 CPU rank 的规划</translation>
        </message>
        <message>
            <source>%1 samples at a time</source>
            <translation>每次 %1 个样本</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::DataPanel</name>
        <message>
            <source>A model in a file of its own names no data.</source>
            <translation>单独文件中的模型不指定数据。</translation>
        </message>
        <message>
            <source>images of %1 × %2</source>
            <translation>%1 × %2 的图像</translation>
        </message>
        <message>
            <source>images of %1 × %2 in color</source>
            <translation>%1 × %2 的彩色图像</translation>
        </message>
        <message>
            <source>images of %1 × %2 with %3 channels</source>
            <translation>%1 × %2 的图像，%3 个通道</translation>
        </message>
        <message>
            <source>rows (numbers: %1, categories: %2)</source>
            <translation>表格行（数值：%1，类别：%2）</translation>
        </message>
        <message>
            <source>texts of %1 tokens</source>
            <translation>%1 个词元的文本</translation>
        </message>
        <message>
            <source>Samples: %1</source>
            <translation>样本：%1</translation>
        </message>
        <message>
            <source>files checked</source>
            <translation>文件已检查</translation>
        </message>
        <message>
            <source>No samples</source>
            <translation>没有样本</translation>
        </message>
        <message>
            <source>Reading samples…</source>
            <translation>正在读取样本…</translation>
        </message>
        <message>
            <source>Counting samples…</source>
            <translation>正在统计样本…</translation>
        </message>
        <message>
            <source>Checking the files…</source>
            <translation>正在检查文件…</translation>
        </message>
        <message>
            <source>Making the data…</source>
            <translation>正在生成数据…</translation>
        </message>
        <message>
            <source>Training data</source>
            <translation>训练数据</translation>
        </message>
        <message>
            <source>Evaluation data</source>
            <translation>评估数据</translation>
        </message>
        <message>
            <source>Part of the data</source>
            <translation>数据的部分</translation>
        </message>
        <message>
            <source>Samples</source>
            <translation>样本</translation>
        </message>
        <message>
            <source>Number of samples shown</source>
            <translation>显示的样本数</translation>
        </message>
        <message>
            <source>First</source>
            <translation>最前</translation>
        </message>
        <message>
            <source>Show the first samples</source>
            <translation>显示最前面的样本</translation>
        </message>
        <message>
            <source>Random</source>
            <translation>随机</translation>
        </message>
        <message>
            <source>Show other random samples</source>
            <translation>显示另一些随机样本</translation>
        </message>
        <message>
            <source>Check files</source>
            <translation>检查文件</translation>
        </message>
        <message>
            <source>Read the files to their ends, check them as a run does, and compare hashes</source>
            <translation>把文件读到末尾，像运行时一样检查，并比较哈希</translation>
        </message>
        <message>
            <source>Make it</source>
            <translation>生成</translation>
        </message>
        <message>
            <source>Make the data of this example, as a launch would</source>
            <translation>生成此示例的数据，与启动时相同</translation>
        </message>
        <message>
            <source>Cancel</source>
            <translation>取消</translation>
        </message>
        <message>
            <source>Samples of each label</source>
            <translation>各标签的样本数</translation>
        </message>
        <message>
            <source>Progress</source>
            <translation>进度</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::DataTableModel</name>
        <message>
            <source>Tokens</source>
            <translation>词元</translation>
        </message>
        <message>
            <source>Sample %1, label %2</source>
            <translation>样本 %1，标签 %2</translation>
        </message>
        <message>
            <source>Sample</source>
            <translation>样本</translation>
        </message>
        <message>
            <source>Text</source>
            <translation>文本</translation>
        </message>
        <message>
            <source>Label</source>
            <translation>标签</translation>
        </message>
        <message>
            <source>n%1</source>
            <comment>number of a table</comment>
            <translation>数%1</translation>
        </message>
        <message>
            <source>c%1</source>
            <comment>category of a table</comment>
            <translation>类%1</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::LabelBars</name>
        <message>
            <source>Label %1: %2 samples</source>
            <translation>标签 %1：%2 个样本</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::ExcludeDialog</name>
        <message>
            <source>Exclude a node</source>
            <translation>排除一个节点</translation>
        </message>
        <message>
            <source>The run takes a checkpoint and continues from it without the node. A spare node replaces it; if there is none, the remaining nodes divide the batch.</source>
            <translation>该运行会先保存检查点，然后在没有该节点的情况下从检查点继续。若有备用节点，则由它替代；若没有，则由其余节点分担整个批次。</translation>
        </message>
        <message>
            <source>The program is ended, and started again without the node. A spare node replaces it; if there is none, the program has fewer ranks. It continues from what it has saved itself.</source>
            <translation>程序会被结束，然后在没有该节点的情况下重新启动。若有备用节点，则由它替代；若没有，则程序的 rank 减少。程序从它自己保存的内容继续。</translation>
        </message>
        <message>
            <source>Exclude</source>
            <translation>排除</translation>
        </message>
        <message>
            <source>Cancel</source>
            <translation>取消</translation>
        </message>
        <message>
            <source>Node</source>
            <translation>节点</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::CommandDialog</name>
        <message>
            <source>Running…</source>
            <translation>正在运行…</translation>
        </message>
        <message>
            <source>Finished.</source>
            <translation>已完成。</translation>
        </message>
        <message>
            <source>Ended with status %1.</source>
            <translation>已结束，退出状态 %1。</translation>
        </message>
        <message>
            <source>A command begins with &quot;lockstep&quot;.</source>
            <translation>命令须以“lockstep”开头。</translation>
        </message>
        <message>
            <source>%1 cannot be started.</source>
            <translation>无法启动 %1。</translation>
        </message>
        <message>
            <source>Cancel</source>
            <translation>取消</translation>
        </message>
        <message>
            <source>Run</source>
            <translation>运行</translation>
        </message>
        <message>
            <source>Close</source>
            <translation>关闭</translation>
        </message>
        <message>
            <source>Command</source>
            <translation>命令</translation>
        </message>
        <message>
            <source>Output</source>
            <translation>输出</translation>
        </message>
        <message>
            <source>Progress</source>
            <translation>进度</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::DebugDialog</name>
        <message>
            <source>Debug node</source>
            <translation>调试节点</translation>
        </message>
        <message>
            <source>Debug %1</source>
            <translation>调试 %1</translation>
        </message>
        <message>
            <source>Node</source>
            <translation>节点</translation>
        </message>
        <message>
            <source>Rank</source>
            <translation>Rank</translation>
        </message>
        <message>
            <source>Rank %1 on %2</source>
            <translation>%2 上的 rank %1</translation>
        </message>
        <message>
            <source>Terminal</source>
            <translation>终端</translation>
        </message>
        <message>
            <source>Open a shell on the node in a terminal window</source>
            <translation>在终端窗口中打开节点上的 shell</translation>
        </message>
        <message>
            <source>Copy the command that opens a shell on the node</source>
            <translation>复制打开节点 shell 的命令</translation>
        </message>
        <message>
            <source>Copy what is shown</source>
            <translation>复制所显示的内容</translation>
        </message>
        <message>
            <source>Copy the command</source>
            <translation>复制命令</translation>
        </message>
        <message>
            <source>What is shown of the node</source>
            <translation>节点的哪些内容</translation>
        </message>
        <message>
            <source>Stacks</source>
            <translation>调用栈</translation>
        </message>
        <message>
            <source>Processes</source>
            <translation>进程</translation>
        </message>
        <message>
            <source>Kernel</source>
            <translation>内核</translation>
        </message>
        <message>
            <source>Debugger</source>
            <translation>调试器</translation>
        </message>
        <message>
            <source>Opened from a run, for its ranks</source>
            <translation>从运行页面打开，用于其 rank</translation>
        </message>
        <message>
            <source>Progress</source>
            <translation>进度</translation>
        </message>
        <message>
            <source>Run this on this machine:</source>
            <translation>在本机运行：</translation>
        </message>
        <message>
            <source>Command of the debugger</source>
            <translation>调试器的命令</translation>
        </message>
        <message>
            <source>Detach</source>
            <translation>分离</translation>
        </message>
        <message>
            <source>Attach debugger</source>
            <translation>附加调试器</translation>
        </message>
        <message>
            <source>Close</source>
            <translation>关闭</translation>
        </message>
        <message>
            <source>Cancel</source>
            <translation>取消</translation>
        </message>
        <message>
            <source>Refresh</source>
            <translation>刷新</translation>
        </message>
        <message>
            <source>Try again</source>
            <translation>重试</translation>
        </message>
        <message>
            <source>Reading…</source>
            <translation>正在读取…</translation>
        </message>
        <message>
            <source>The kernel's log is empty.</source>
            <translation>内核日志为空。</translation>
        </message>
        <message>
            <source>Nothing has been read.</source>
            <translation>尚未读取。</translation>
        </message>
        <message>
            <source>gdbserver is attached to the rank while a debugger is connected. Training stands still while the debugger holds the rank. It goes on when the debugger leaves, and when this dialog is closed.</source>
            <translation>调试器连接期间，gdbserver 附加到该 rank。调试器停住该 rank 时训练停止；调试器离开或关闭此对话框后训练继续。</translation>
        </message>
        <message>
            <source>After %1 the other ranks give the rank up, and the run restarts or ends.</source>
            <translation>%1 后其他 rank 会放弃该 rank，运行随之重启或结束。</translation>
        </message>
        <message>
            <source>A debugger is attached</source>
            <translation>调试器已附加</translation>
        </message>
        <message>
            <source>Waiting for a debugger</source>
            <translation>等待调试器</translation>
        </message>
        <message>
            <source>Starting</source>
            <translation>正在启动</translation>
        </message>
        <message>
            <source>Process %1 on %2. Threads: %3, each stopped for at most %4.</source>
            <translation>%2 上的进程 %1。线程数：%3，每个最多停止 %4。</translation>
        </message>
        <message>
            <source>There are more threads.</source>
            <translation>还有更多线程。</translation>
        </message>
        <message>
            <source>%1 of %2 processes, CPU measured over %3.</source>
            <translation>%2 个进程中的 %1 个，CPU 按 %3 测量。</translation>
        </message>
        <message>
            <source>The node hides those of other accounts.</source>
            <translation>节点隐藏了其他账户的进程。</translation>
        </message>
        <message>
            <source>The newest %1 messages of the kernel.</source>
            <translation>内核最新的 %1 条消息。</translation>
        </message>
        <message>
            <source>Copied: %1</source>
            <translation>已复制：%1</translation>
        </message>
        <message>
            <source>No terminal program could be started.</source>
            <translation>无法启动终端程序。</translation>
        </message>
        <message>
            <source>Speed</source>
            <translation>速度</translation>
        </message>
        <message>
            <source>Measure</source>
            <translation>测量</translation>
        </message>
        <message>
            <source>Measuring…</source>
            <translation>正在测量…</translation>
        </message>
        <message>
            <source>Is the node slower than the others?</source>
            <translation>该节点比其他节点慢吗？</translation>
        </message>
        <message>
            <source>There is no other node to compare it with.</source>
            <translation>没有其他节点可与之比较。</translation>
        </message>
        <message>
            <source>Matrix products, memory and disk writes of all connected nodes are measured at the same time. Training on them is slowed meanwhile, for some seconds.</source>
            <translation>同时测量所有已连接节点的矩阵乘法、内存和磁盘写入。期间数秒内这些节点上的训练会变慢。</translation>
        </message>
        <message>
            <source>The processor, memory and disk of the node are as fast as those of the others.</source>
            <translation>该节点的处理器、内存和磁盘与其他节点一样快。</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::StackModel</name>
        <message>
            <source>Thread %1 %2</source>
            <translation>线程 %1 %2</translation>
        </message>
        <message>
            <source>How long the thread was stopped while its stack was read</source>
            <translation>读取调用栈时线程停止的时间</translation>
        </message>
        <message>
            <source>Frame</source>
            <translation>帧</translation>
        </message>
        <message>
            <source>State</source>
            <translation>状态</translation>
        </message>
        <message>
            <source>Stopped</source>
            <translation>停止</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::ProcessModel</name>
        <message>
            <source>rank %1</source>
            <translation>rank %1</translation>
        </message>
        <message>
            <source>agent</source>
            <translation>代理</translation>
        </message>
        <message>
            <source>supervisor</source>
            <translation>监管进程</translation>
        </message>
        <message>
            <source>worker</source>
            <translation>工作进程</translation>
        </message>
        <message>
            <source>Of one core</source>
            <translation>按一个核计</translation>
        </message>
        <message>
            <source>PID</source>
            <translation>PID</translation>
        </message>
        <message>
            <source>User</source>
            <translation>用户</translation>
        </message>
        <message>
            <source>CPU</source>
            <translation>CPU</translation>
        </message>
        <message>
            <source>Memory</source>
            <translation>内存</translation>
        </message>
        <message>
            <source>Threads</source>
            <translation>线程</translation>
        </message>
        <message>
            <source>State</source>
            <translation>状态</translation>
        </message>
        <message>
            <source>Lockstep</source>
            <translation>Lockstep</translation>
        </message>
        <message>
            <source>Command</source>
            <translation>命令</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::KernelLogModel</name>
        <message>
            <source>emergency</source>
            <translation>紧急</translation>
        </message>
        <message>
            <source>alert</source>
            <translation>警报</translation>
        </message>
        <message>
            <source>critical</source>
            <translation>严重</translation>
        </message>
        <message>
            <source>error</source>
            <translation>错误</translation>
        </message>
        <message>
            <source>warning</source>
            <translation>警告</translation>
        </message>
        <message>
            <source>notice</source>
            <translation>注意</translation>
        </message>
        <message>
            <source>info</source>
            <translation>信息</translation>
        </message>
        <message>
            <source>debug</source>
            <translation>调试</translation>
        </message>
        <message>
            <source>Time</source>
            <translation>时间</translation>
        </message>
        <message>
            <source>Level</source>
            <translation>级别</translation>
        </message>
        <message>
            <source>Message</source>
            <translation>消息</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::CostsPanel</name>
        <message>
            <source>Steps %1 to %2 replayed: %3, with an error of %4.</source>
            <translation>重放第 %1 步到第 %2 步：%3，误差 %4。</translation>
        </message>
        <message>
            <source>Time that the others waited</source>
            <translation>其他 rank 等待的时间</translation>
        </message>
        <message>
            <source>Beside its peers</source>
            <translation>与其他 rank 对比</translation>
        </message>
        <message>
            <source>Ranks</source>
            <translation>rank</translation>
        </message>
        <message>
            <source>Nodes</source>
            <translation>节点</translation>
        </message>
        <message>
            <source>Rows</source>
            <translation>行</translation>
        </message>
        <message>
            <source>Last 100 steps</source>
            <translation>最近 100 步</translation>
        </message>
        <message>
            <source>Last 1,000 steps</source>
            <translation>最近 1,000 步</translation>
        </message>
        <message>
            <source>All steps</source>
            <translation>所有步</translation>
        </message>
        <message>
            <source>Steps</source>
            <translation>步</translation>
        </message>
        <message>
            <source>Show its last late step in the heat map</source>
            <translation>在热力图中显示它最后一个慢步</translation>
        </message>
        <message>
            <source>Ranks are compared after the first steps.</source>
            <translation>最初几步之后开始比较各 rank。</translation>
        </message>
        <message>
            <source>A run of one rank has no stragglers.</source>
            <translation>只有一个 rank 的运行没有慢 rank。</translation>
        </message>
        <message>
            <source>Steps %1 to %2: a step takes %3.</source>
            <translation>第 %1 步到第 %2 步：每步用时 %3。</translation>
        </message>
        <message>
            <source>Steps %1 to %2: a step takes at most %3.</source>
            <translation>第 %1 步到第 %2 步：每步至多用时 %3。</translation>
        </message>
        <message>
            <source>The ranks of asynchronous training do not wait for each other.</source>
            <translation>异步训练的各 rank 不会互相等待。</translation>
        </message>
        <message>
            <source>Debug it: stacks, processes, kernel messages, a debugger</source>
            <translation>调试它：调用栈、进程、内核消息、调试器</translation>
        </message>
        <message>
            <source>Exclude its node from the run</source>
            <translation>从运行中排除它的节点</translation>
        </message>
        <message>
            <source>The others waited for it %1, %2 of the time.</source>
            <translation>其他 rank 等待它 %1，占总时间的 %2。</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::CostModel</name>
        <message>
            <source>The mean step, were it as fast as the others: by a replay of the measured steps, or (≈) by the time that the others waited</source>
            <translation>如果它和其他 rank 一样快，每步的平均用时：由实测步骤的重放得出，或（≈）由其他 rank 等待的时间估计</translation>
        </message>
        <message>
            <source>rank %1</source>
            <translation>rank %1</translation>
        </message>
        <message>
            <source>%1 (%2 to %3)</source>
            <translation>%1（%2 到 %3）</translation>
        </message>
        <message>
            <source>Node</source>
            <translation>节点</translation>
        </message>
        <message>
            <source>Rank</source>
            <translation>rank</translation>
        </message>
        <message>
            <source>Time lost</source>
            <translation>损失时间</translation>
        </message>
        <message>
            <source>How long the other ranks waited for it</source>
            <translation>其他 rank 等待它的时间</translation>
        </message>
        <message>
            <source>Of the time</source>
            <translation>占比</translation>
        </message>
        <message>
            <source>Of the time of all these steps</source>
            <translation>占这些步总时间的比例</translation>
        </message>
        <message>
            <source>Mostly in</source>
            <translation>主要阶段</translation>
        </message>
        <message>
            <source>The phase that took it longer than the others</source>
            <translation>它比其他 rank 更慢的阶段</translation>
        </message>
        <message>
            <source>Late in steps</source>
            <translation>慢步</translation>
        </message>
        <message>
            <source>Steps that it made longer by a quarter, with the first and the last</source>
            <translation>被它拖长四分之一以上的步，以及其中第一步和最后一步</translation>
        </message>
        <message>
            <source>Step without it</source>
            <translation>没有它时每步</translation>
        </message>
        <message>
            <source>The mean step, were it as fast as the others</source>
            <translation>如果它和其他 rank 一样快，每步的平均用时</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::PeerModel</name>
        <message>
            <source>Figure</source>
            <translation>指标</translation>
        </message>
        <message>
            <source>Rank %1</source>
            <translation>rank %1</translation>
        </message>
        <message>
            <source>Median of the others</source>
            <translation>其他 rank 的中位数</translation>
        </message>
        <message>
            <source>Factor</source>
            <translation>倍数</translation>
        </message>
        <message>
            <source>%1 cores</source>
            <translation>%1 核</translation>
        </message>
        <message>
            <source>Step</source>
            <translation>步</translation>
        </message>
        <message>
            <source>CPU of its process</source>
            <translation>进程的 CPU</translation>
        </message>
        <message>
            <source>Memory of its process</source>
            <translation>进程的内存</translation>
        </message>
        <message>
            <source>CPU of its node</source>
            <translation>节点的 CPU</translation>
        </message>
        <message>
            <source>Read from its node's disks</source>
            <translation>节点磁盘读取</translation>
        </message>
        <message>
            <source>Written to its node's disks</source>
            <translation>节点磁盘写入</translation>
        </message>
        <message>
            <source>Use of its node's disks</source>
            <translation>节点磁盘占用</translation>
        </message>
        <message>
            <source>Received by its node</source>
            <translation>节点接收</translation>
        </message>
        <message>
            <source>Sent by its node</source>
            <translation>节点发送</translation>
        </message>
        <message>
            <source>GPU utilisation of its node</source>
            <translation>节点的 GPU 利用率</translation>
        </message>
        <message>
            <source>GPU clock of its node</source>
            <translation>节点的 GPU 频率</translation>
        </message>
        <message>
            <source>GPU temperature of its node</source>
            <translation>节点的 GPU 温度</translation>
        </message>
        <message>
            <source>GPU throttling of its node</source>
            <translation>节点的 GPU 降频</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::RestartDialog</name>
        <message>
            <source>Restart all ranks</source>
            <translation>重启所有 rank</translation>
        </message>
        <message>
            <source>The run takes a checkpoint, ends the processes of all ranks, and starts them again from it. The result is the same.</source>
            <translation>运行会写一个检查点，结束所有 rank 的进程，再从它重新启动。结果不变。</translation>
        </message>
        <message>
            <source>The processes of all ranks are ended, and the program is started again. It continues from what it has saved itself.</source>
            <translation>所有 rank 的进程会被结束，程序重新启动，并从它自己保存的内容继续。</translation>
        </message>
        <message>
            <source>Restart</source>
            <translation>重启</translation>
        </message>
        <message>
            <source>Cancel</source>
            <translation>取消</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::Player</name>
        <message>
            <source>Play</source>
            <translation>播放</translation>
        </message>
        <message>
            <source>Pause</source>
            <translation>暂停</translation>
        </message>
        <message>
            <source>One step back</source>
            <translation>后退一步</translation>
        </message>
        <message>
            <source>One step forward</source>
            <translation>前进一步</translation>
        </message>
        <message>
            <source>Position</source>
            <translation>位置</translation>
        </message>
        <message>
            <source>Speed</source>
            <translation>速度</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::MessagesView</name>
        <message>
            <source>rank %1</source>
            <translation>rank %1</translation>
        </message>
        <message>
            <source>Every rank has the sum of all %1.</source>
            <translation>每个 rank 都有了全部 %1 个 rank 之和。</translation>
        </message>
        <message>
            <source>Before round 1 of %1: every rank has its own values.</source>
            <translation>共 %1 轮，第 1 轮之前：每个 rank 只有自己的值。</translation>
        </message>
        <message>
            <source>what arrives is added</source>
            <translation>到达的值被加上</translation>
        </message>
        <message>
            <source>what arrives replaces what was there</source>
            <translation>到达的值取代原有的值</translation>
        </message>
        <message>
            <source>what arrives is added or replaces what was there</source>
            <translation>到达的值被加上，或取代原有的值</translation>
        </message>
        <message>
            <source>Round %1 of %2, messages: %3; %4.</source>
            <translation>第 %1 轮（共 %2 轮），消息：%3；%4。</translation>
        </message>
        <message>
            <source>After round %1 of %2, messages: %3; %4.</source>
            <translation>第 %1 轮（共 %2 轮）之后，消息：%3；%4。</translation>
        </message>
        <message>
            <source>rank %1, elements from %2: the sum of %3 of %4 ranks&apos; values</source>
            <translation>rank %1，从元素 %2 起：%4 个 rank 中 %3 个的值之和</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::MessageModel</name>
        <message>
            <source>added</source>
            <translation>相加</translation>
        </message>
        <message>
            <source>replaces</source>
            <translation>取代</translation>
        </message>
        <message>
            <source>Round</source>
            <translation>轮</translation>
        </message>
        <message>
            <source>From rank</source>
            <translation>发送 rank</translation>
        </message>
        <message>
            <source>To rank</source>
            <translation>接收 rank</translation>
        </message>
        <message>
            <source>Elements</source>
            <translation>元素</translation>
        </message>
        <message>
            <source>Effect</source>
            <translation>作用</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::LessonText</name>
        <message>
            <source>Back</source>
            <translation>上一页</translation>
        </message>
        <message>
            <source>Next</source>
            <translation>下一页</translation>
        </message>
        <message>
            <source>page %1 of %2</source>
            <translation>第 %1 页，共 %2 页</translation>
        </message>
        <message>
            <source>Text of the page</source>
            <translation>本页文字</translation>
        </message>
        <message>
            <source>Question</source>
            <translation>问题</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::LessonSliders</name>
        <message>
            <source>At the start: %1</source>
            <translation>开始时：%1</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::LessonExercises</name>
        <message>
            <source>reached</source>
            <translation>已完成</translation>
        </message>
        <message>
            <source>not reached yet</source>
            <translation>尚未完成</translation>
        </message>
        <message>
            <source>Exercises, reached: %1 of %2</source>
            <translation>练习，已完成 %1 / %2</translation>
        </message>
        <message>
            <source>Hint</source>
            <translation>提示</translation>
        </message>
        <message>
            <source>Hint for exercise %1</source>
            <translation>练习 %1 的提示</translation>
        </message>
        <message>
            <source>For real</source>
            <translation>真实运行</translation>
        </message>
        <message>
            <source>%1 local agents</source>
            <translation>%1 个本地 agent</translation>
        </message>
        <message>
            <source>Run on this machine…</source>
            <translation>在本机运行…</translation>
        </message>
        <message>
            <source>Opens the launch dialog with these settings</source>
            <translation>用这些设置打开启动对话框</translation>
        </message>
        <message>
            <source>Command that launches the same run from a terminal</source>
            <translation>在终端中启动同样的运行</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::LessonPicture</name>
        <message>
            <source>Timeline</source>
            <translation>时间线</translation>
        </message>
        <message>
            <source>Timeline of a simulated step</source>
            <translation>模拟一步的时间线</translation>
        </message>
        <message>
            <source>This lesson has no step to show.</source>
            <translation>本课没有可显示的步。</translation>
        </message>
        <message>
            <source>rank %1</source>
            <translation>rank %1</translation>
        </message>
        <message>
            <source>Click a span for its name and length.</source>
            <translation>点击一个时间段，查看名称和长度。</translation>
        </message>
        <message>
            <source>Messages</source>
            <translation>消息</translation>
        </message>
        <message>
            <source>All-reduce, message by message</source>
            <translation>all-reduce，逐条消息</translation>
        </message>
        <message>
            <source>Messages of the all-reduce</source>
            <translation>all-reduce 的消息</translation>
        </message>
        <message>
            <source>Show the data as a table</source>
            <translation>以表格显示数据</translation>
        </message>
        <message>
            <source>ranks in the sum of a slice</source>
            <translation>一个分片之和所含的 rank 数</translation>
        </message>
        <message>
            <source>Rank × step</source>
            <translation>rank × 步</translation>
        </message>
        <message>
            <source>Measure</source>
            <translation>度量</translation>
        </message>
        <message>
            <source>Heat map, rank × step</source>
            <translation>热图，rank × 步</translation>
        </message>
        <message>
            <source>This lesson has no steps to show.</source>
            <translation>本课没有可显示的步。</translation>
        </message>
        <message>
            <source>seconds</source>
            <translation>秒</translation>
        </message>
        <message>
            <source>Click a cell for its value.</source>
            <translation>点击一格，查看数值。</translation>
        </message>
        <message>
            <source>step %1</source>
            <translation>第 %1 步</translation>
        </message>
        <message>
            <source>Traffic</source>
            <translation>流量</translation>
        </message>
        <message>
            <source>Bytes that the rank of a row sends to the rank of a column in a step.</source>
            <translation>一步之中，行所示的 rank 发给列所示的 rank 的字节数。</translation>
        </message>
        <message>
            <source>Planned traffic between ranks, bytes per step</source>
            <translation>rank 之间的计划流量，每步字节数</translation>
        </message>
        <message>
            <source>Memory</source>
            <translation>内存</translation>
        </message>
        <message>
            <source>Memory of each rank; thin and pale: at the start of the lesson.</source>
            <translation>每个 rank 的内存；细而浅的条：本课开始时。</translation>
        </message>
        <message>
            <source>Memory of each rank, by kind</source>
            <translation>每个 rank 的内存，按种类</translation>
        </message>
        <message>
            <source>Chart</source>
            <translation>图表</translation>
        </message>
        <message>
            <source>Nothing to show for these values.</source>
            <translation>对这些值没有可显示的内容。</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::LessonViewer</name>
        <message>
            <source>start: %1</source>
            <translation>开始时：%1</translation>
        </message>
        <message>
            <source>Making the picture…</source>
            <translation>正在生成图…</translation>
        </message>
        <message>
            <source>Stopped: the picture is of earlier values.</source>
            <translation>已停止：图来自之前的值。</translation>
        </message>
        <message>
            <source>Pictures</source>
            <translation>图</translation>
        </message>
        <message>
            <source>Lesson</source>
            <translation>课程</translation>
        </message>
        <message>
            <source>Stop</source>
            <translation>停止</translation>
        </message>
        <message>
            <source>Try again</source>
            <translation>重试</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::LessonList</name>
        <message>
            <source>No lessons</source>
            <translation>没有课程</translation>
        </message>
        <message>
            <source>Look again</source>
            <translation>再找一次</translation>
        </message>
        <message>
            <source>%1 min</source>
            <translation>%1 分钟</translation>
        </message>
        <message>
            <source>%1 of %2 exercises · %3 min</source>
            <translation>练习 %1 / %2 · %3 分钟</translation>
        </message>
        <message>
            <source>cannot be read</source>
            <translation>无法读取</translation>
        </message>
        <message>
            <source>done</source>
            <translation>已完成</translation>
        </message>
        <message>
            <source>How distributed training works, shown by the simulator and then run for real on this machine. Done: %1 of %2.</source>
            <translation>分布式训练如何工作：先由模拟器演示，再在本机真实运行。已完成 %1 / %2。</translation>
        </message>
        <message>
            <source>Learn</source>
            <translation>学习</translation>
        </message>
        <message>
            <source>Lessons</source>
            <translation>课程</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::LearnPage</name>
        <message>
            <source>Learn</source>
            <translation>学习</translation>
        </message>
        <message>
            <source>Lessons</source>
            <translation>课程</translation>
        </message>
        <message>
            <source>All lessons</source>
            <translation>全部课程</translation>
        </message>
        <message>
            <source>Back to the values at the start</source>
            <translation>恢复开始时的值</translation>
        </message>
        <message>
            <source>Save the state as a file…</source>
            <translation>把状态存为文件…</translation>
        </message>
        <message>
            <source>Open a saved state…</source>
            <translation>打开已存的状态…</translation>
        </message>
        <message>
            <source>Copy a link to this state</source>
            <translation>复制此状态的链接</translation>
        </message>
        <message>
            <source>Projector: large type</source>
            <translation>投影仪：大字</translation>
        </message>
        <message>
            <source>Save the state of the lesson</source>
            <translation>保存课程状态</translation>
        </message>
        <message>
            <source>States of lessons (*.lesson)</source>
            <translation>课程状态 (*.lesson)</translation>
        </message>
        <message>
            <source>Open the state of a lesson</source>
            <translation>打开课程状态</translation>
        </message>
        <message>
            <source>States of lessons (*.lesson);;All files (*)</source>
            <translation>课程状态 (*.lesson);;所有文件 (*)</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::InspectorModel</name>
        <message>
            <source>Environment</source>
            <translation>环境</translation>
        </message>
        <message>
            <source>Remarks at the launch</source>
            <translation>启动时的说明</translation>
        </message>
        <message>
            <source>Energy</source>
            <translation>能耗</translation>
        </message>
        <message>
            <source>Cost</source>
            <translation>费用</translation>
        </message>
        <message>
            <source>CO2 equivalent</source>
            <translation>二氧化碳当量</translation>
        </message>
        <message>
            <source>Energy: computing</source>
            <translation>能耗：计算</translation>
        </message>
        <message>
            <source>Energy: communication</source>
            <translation>能耗：通信</translation>
        </message>
        <message>
            <source>Energy: waiting</source>
            <translation>能耗：等待</translation>
        </message>
        <message>
            <source>Energy: other</source>
            <translation>能耗：其他</translation>
        </message>
        <message>
            <source>Energy per step</source>
            <translation>每步能耗</translation>
        </message>
        <message>
            <source>Energy per epoch</source>
            <translation>每轮能耗</translation>
        </message>
        <message>
            <source>Energy per point of accuracy</source>
            <translation>每个准确率百分点的能耗</translation>
        </message>
        <message>
            <source>Predicted energy of its steps</source>
            <translation>这些步的预测能耗</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::RebalanceDialog</name>
        <message>
            <source>Computing…</source>
            <translation>正在计算…</translation>
        </message>
        <message>
            <source>Steps %1 to %2 show a good division: all ranks compute for about the same time.</source>
            <translation>依据第 %1 至 %2 步，批次划分得当：各 rank 的计算时间大致相等。</translation>
        </message>
        <message>
            <source>Over steps %1 to %2 a step took %3. With this division it would take about %4.</source>
            <translation>依据第 %1 至 %2 步，每步耗时 %3，划分后约为 %4。</translation>
        </message>
        <message>
            <source>Divide the batch by speed</source>
            <translation>按速度划分批次</translation>
        </message>
        <message>
            <source>Ranks that compute a sample faster get more of the batch. The run saves a checkpoint and continues from it with this division.</source>
            <translation>计算样本较快的 rank 分得批次中较多的样本。该运行会先保存检查点，然后按此划分继续。</translation>
        </message>
        <message>
            <source>Divide</source>
            <translation>划分</translation>
        </message>
        <message>
            <source>Cancel</source>
            <translation>取消</translation>
        </message>
        <message>
            <source>Samples of each rank</source>
            <translation>各 rank 的样本数</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::RebalanceModel</name>
        <message>
            <source>Rank</source>
            <translation>Rank</translation>
        </message>
        <message>
            <source>Node</source>
            <translation>节点</translation>
        </message>
        <message>
            <source>Time per sample</source>
            <translation>每样本耗时</translation>
        </message>
        <message>
            <source>Samples now</source>
            <translation>当前样本数</translation>
        </message>
        <message>
            <source>Compute time</source>
            <translation>计算时间</translation>
        </message>
        <message>
            <source>Proposed samples</source>
            <translation>建议样本数</translation>
        </message>
        <message>
            <source>Proposed compute time</source>
            <translation>建议的计算时间</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::PlanTimeline</name>
        <message>
            <source>rank %1</source>
            <translation>rank %1</translation>
        </message>
        <message>
            <source>bubble: %1 of the step</source>
            <translation>气泡：占每步 %1</translation>
        </message>
        <message>
            <source>%1 of the communication is hidden</source>
            <translation>通信的 %1 被计算掩盖</translation>
        </message>
        <message>
            <source>click a span for its details</source>
            <translation>点击一段可查看详情</translation>
        </message>
        <message>
            <source>Timeline of the predicted step</source>
            <translation>预测的一步的时间线</translation>
        </message>
        <message>
            <source>No step is predicted for these settings.</source>
            <translation>没有这些设置的预测步。</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::AdviceModel</name>
        <message>
            <source>Predicted step time</source>
            <translation>预测的每步时间</translation>
        </message>
        <message>
            <source>Step</source>
            <translation>每步</translation>
        </message>
        <message>
            <source>Bubble: the part of a step in which ranks wait for each other, their mean</source>
            <translation>气泡：每步中各 rank 互相等待的时间占比的平均值</translation>
        </message>
        <message>
            <source>Bubble</source>
            <translation>气泡</translation>
        </message>
        <message>
            <source>Peak memory per rank</source>
            <translation>每个 rank 的内存峰值</translation>
        </message>
        <message>
            <source>Memory</source>
            <translation>内存</translation>
        </message>
        <message>
            <source>Traffic per rank per step</source>
            <translation>每个 rank 每步的通信量</translation>
        </message>
        <message>
            <source>Traffic</source>
            <translation>通信量</translation>
        </message>
        <message>
            <source>Traffic per step of the busiest link between two nodes, both ways</source>
            <translation>两节点间最繁忙链路每步的双向通信量</translation>
        </message>
        <message>
            <source>Cost and CO2 equivalent of 1,000 steps</source>
            <translation>1,000 步的费用和二氧化碳当量</translation>
        </message>
        <message>
            <source>Cost</source>
            <translation>费用</translation>
        </message>
        <message>
            <source>Link</source>
            <translation>链路</translation>
        </message>
        <message>
            <source>Energy per step of all hosts</source>
            <translation>所有主机每步的能耗</translation>
        </message>
        <message>
            <source>Energy</source>
            <translation>能耗</translation>
        </message>
        <message>
            <source>Why</source>
            <translation>原因</translation>
        </message>
        <message>
            <source>Strategy</source>
            <translation>策略</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::PlanFigureModel</name>
        <message>
            <source>A training step</source>
            <translation>一个训练步</translation>
        </message>
        <message>
            <source>Plan</source>
            <translation>计划</translation>
        </message>
        <message>
            <source>Other</source>
            <translation>另一计划</translation>
        </message>
        <message>
            <source>Difference</source>
            <translation>差异</translation>
        </message>
        <message>
            <source>Exchanges: %1</source>
            <translation>交换次数：%1</translation>
        </message>
        <message>
            <source>Sent: %1</source>
            <translation>发送量：%1</translation>
        </message>
        <message>
            <source>Step</source>
            <translation>每步</translation>
        </message>
        <message>
            <source>Samples</source>
            <translation>样本</translation>
        </message>
        <message>
            <source>Ranks</source>
            <translation>Rank 数</translation>
        </message>
        <message>
            <source>Time: data</source>
            <translation>时间：数据</translation>
        </message>
        <message>
            <source>Time: forward</source>
            <translation>时间：前向</translation>
        </message>
        <message>
            <source>Time: backward</source>
            <translation>时间：反向</translation>
        </message>
        <message>
            <source>Time: optimizer</source>
            <translation>时间：优化器</translation>
        </message>
        <message>
            <source>Time: waiting</source>
            <translation>时间：等待</translation>
        </message>
        <message>
            <source>Time: exchanging</source>
            <translation>时间：通信</translation>
        </message>
        <message>
            <source>Time: exchanging, hidden</source>
            <translation>时间：被掩盖的通信</translation>
        </message>
        <message>
            <source>Energy</source>
            <translation>能耗</translation>
        </message>
        <message>
            <source>Memory</source>
            <translation>内存</translation>
        </message>
        <message>
            <source>Memory: parameters</source>
            <translation>内存：参数</translation>
        </message>
        <message>
            <source>Memory: optimizer</source>
            <translation>内存：优化器</translation>
        </message>
        <message>
            <source>Memory: gradients</source>
            <translation>内存：梯度</translation>
        </message>
        <message>
            <source>Memory: activations</source>
            <translation>内存：激活</translation>
        </message>
        <message>
            <source>Memory: workspace</source>
            <translation>内存：工作区</translation>
        </message>
        <message>
            <source>Operations</source>
            <translation>运算数</translation>
        </message>
        <message>
            <source>Computation</source>
            <translation>计算量</translation>
        </message>
        <message>
            <source>Memory traffic</source>
            <translation>内存访问量</translation>
        </message>
        <message>
            <source>Busiest link</source>
            <translation>最繁忙链路</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::PlanDialog</name>
        <message>
            <source>The plan is in %1.</source>
            <translation>计划已存入 %1。</translation>
        </message>
        <message>
            <source>The plans are the same.</source>
            <translation>两个计划相同。</translation>
        </message>
        <message>
            <source>Beside the current plan, %1. What differs is marked.</source>
            <translation>与当前计划 %1 并列，差异已标出。</translation>
        </message>
        <message>
            <source>Choose</source>
            <translation>选用</translation>
        </message>
        <message>
            <source>Close</source>
            <translation>关闭</translation>
        </message>
        <message>
            <source>Figures</source>
            <translation>数值</translation>
        </message>
        <message>
            <source>Plan</source>
            <translation>计划</translation>
        </message>
        <message>
            <source>Text of the plan</source>
            <translation>计划文本</translation>
        </message>
        <message>
            <source>Text of the current plan</source>
            <translation>当前计划文本</translation>
        </message>
        <message>
            <source>Copy</source>
            <translation>复制</translation>
        </message>
        <message>
            <source>Copy the text of this plan</source>
            <translation>复制此计划的文本</translation>
        </message>
        <message>
            <source>Save as…</source>
            <translation>另存为…</translation>
        </message>
        <message>
            <source>Save the text of this plan</source>
            <translation>保存此计划的文本</translation>
        </message>
        <message>
            <source>Save the plan</source>
            <translation>保存计划</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::AdvicePanel</name>
        <message>
            <source>For assumed costs, as those that the run measured are not known: %1.</source>
            <translation>按假定的开销，因为此运行测得的开销未知：%1。</translation>
        </message>
        <message>
            <source>Cancel</source>
            <translation>取消</translation>
        </message>
        <message>
            <source>Find the fastest</source>
            <translation>查找最快策略</translation>
        </message>
        <message>
            <source>Ends the search with what was found</source>
            <translation>结束搜索并保留已找到的结果</translation>
        </message>
        <message>
            <source>Plans and simulates strategies for up to 8 seconds, as `lockstep advise` does</source>
            <translation>与 `lockstep advise` 一样，规划并模拟各种策略，最多 8 秒</translation>
        </message>
        <message>
            <source>%1 strategies planned</source>
            <translation>已规划 %1 种策略</translation>
        </message>
        <message>
            <source>%1 strategies judged, %2 planned: %3 do not fit in memory, %4 are not possible here.</source>
            <translation>评估了 %1 种策略，规划了 %2 种：%3 种内存不足，%4 种在此不可行。</translation>
        </message>
        <message>
            <source>The search ended early.</source>
            <translation>搜索提前结束。</translation>
        </message>
        <message>
            <source>Keep</source>
            <translation>保持</translation>
        </message>
        <message>
            <source>Options that the search keeps</source>
            <translation>搜索中保持不变的选项</translation>
        </message>
        <message>
            <source>Options that the search keeps as they are set here</source>
            <translation>搜索中按此处设置保持不变的选项</translation>
        </message>
        <message>
            <source>Also try</source>
            <translation>另外尝试</translation>
        </message>
        <message>
            <source>Precisions that the search also tries</source>
            <translation>搜索中另外尝试的精度</translation>
        </message>
        <message>
            <source>Precisions that the search also tries; they change results</source>
            <translation>搜索中另外尝试的精度；它们会改变结果</translation>
        </message>
        <message>
            <source>Command</source>
            <translation>命令</translation>
        </message>
        <message>
            <source>This search as a command for a terminal; it does not connect to nodes</source>
            <translation>此搜索的终端命令；它不连接节点</translation>
        </message>
        <message>
            <source>Progress</source>
            <translation>进度</translation>
        </message>
        <message>
            <source>Fastest strategies</source>
            <translation>最快策略</translation>
        </message>
        <message>
            <source>Double-click a strategy to choose it</source>
            <translation>双击策略即可选用</translation>
        </message>
        <message>
            <source>Open plan</source>
            <translation>打开计划</translation>
        </message>
        <message>
            <source>Shows the figures and the text of its plan</source>
            <translation>显示其计划的数值与文本</translation>
        </message>
        <message>
            <source>Compare with current</source>
            <translation>与当前计划比较</translation>
        </message>
        <message>
            <source>Shows its plan beside the current one, as `lockstep plan --diff` does</source>
            <translation>与 `lockstep plan --diff` 一样，将其计划与当前计划并列显示</translation>
        </message>
        <message>
            <source>Choose</source>
            <translation>选用</translation>
        </message>
        <message>
            <source>Sets its options for the launch</source>
            <translation>将其选项用于此次启动</translation>
        </message>
        <message>
            <source>For nodes and links as the run measured them; its own step, planned anew, is off by %1.</source>
            <translation>按该运行实测的节点与链路；其自身的步重新规划后误差为 %1。</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::WhatIfPanel</name>
        <message>
            <source>The step with this rank as fast as others that do the same</source>
            <translation>这个 rank 与做同样工作的其他 rank 一样快时的一步</translation>
        </message>
        <message>
            <source>The two nodes whose link has another rate</source>
            <translation>链路速率不同的两个节点</translation>
        </message>
        <message>
            <source>What the link carries</source>
            <translation>链路的传输速率</translation>
        </message>
        <message>
            <source>Planned anew for as many ranks</source>
            <translation>按这个 rank 数重新规划</translation>
        </message>
        <message>
            <source>No rank</source>
            <translation>无 rank</translation>
        </message>
        <message>
            <source>No link</source>
            <translation>无链路</translation>
        </message>
        <message>
            <source>Rank %1</source>
            <translation>Rank %1</translation>
        </message>
        <message>
            <source>Rank %1 (%2)</source>
            <translation>Rank %1（%2）</translation>
        </message>
        <message>
            <source>Planned anew with the costs of the prediction.</source>
            <translation>以预测所用的开销重新规划。</translation>
        </message>
        <message>
            <source>The predicted step is simulated with the change. How good the prediction is, the run tells.</source>
            <translation>带着此改变模拟预测的步。预测有多准，要由运行来说明。</translation>
        </message>
        <message>
            <source>Planned anew with the costs that were measured. The error is that of what did happen, simulated with them.</source>
            <translation>按实测开销重新规划。误差为以这些开销模拟实际情况所得的误差。</translation>
        </message>
        <message>
            <source>Steps %1 to %2, of which %3 were replayed with their measured durations. The error is that of a replay of what did happen.</source>
            <translation>第 %1 到 %2 步，其中 %3 步以实测时长重放。误差来自对实际发生情况的重放。</translation>
        </message>
        <message>
            <source>Predicted step</source>
            <translation>预测步时</translation>
        </message>
        <message>
            <source>Measured step</source>
            <translation>实测步时</translation>
        </message>
        <message>
            <source>%1 in a single step</source>
            <translation>单步 %1</translation>
        </message>
        <message>
            <source>The steps are being read.</source>
            <translation>正在读取各步。</translation>
        </message>
        <message>
            <source>The predicted step is not known yet.</source>
            <translation>尚不知道预测的步时。</translation>
        </message>
        <message>
            <source>What if</source>
            <translation>假设分析</translation>
        </message>
        <message>
            <source>As fast as its peers:</source>
            <translation>与同伴一样快：</translation>
        </message>
        <message>
            <source>Another rate of link:</source>
            <translation>改变链路速率：</translation>
        </message>
        <message>
            <source>Rank that is as fast as its peers</source>
            <translation>与同伴一样快的 rank</translation>
        </message>
        <message>
            <source>Link with another rate</source>
            <translation>改变速率的链路</translation>
        </message>
        <message>
            <source>Rate of the link</source>
            <translation>链路速率</translation>
        </message>
        <message>
            <source>An ideal network: nothing takes time to travel</source>
            <translation>理想网络：传输不花时间</translation>
        </message>
        <message>
            <source>No bubble: the stages of a pipeline do not wait for each other</source>
            <translation>无气泡：流水线各阶段互不等待</translation>
        </message>
        <message>
            <source>Step with the change</source>
            <translation>改变后的步时</translation>
        </message>
        <message>
            <source>Samples per second</source>
            <translation>每秒样本数</translation>
        </message>
        <message>
            <source>Error of the replay</source>
            <translation>重放误差</translation>
        </message>
        <message>
            <source>Another number of ranks:</source>
            <translation>改变 rank 数：</translation>
        </message>
        <message>
            <source>Another number of ranks</source>
            <translation>改变 rank 数</translation>
        </message>
        <message>
            <source>Unchanged</source>
            <translation>不变</translation>
        </message>
        <message>
            <source>Compute in bf16</source>
            <translation>以 bf16 计算</translation>
        </message>
        <message>
            <source>Command</source>
            <translation>命令</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::WhatIfDialog</name>
        <message>
            <source>What if %1 …</source>
            <translation>%1：假设分析</translation>
        </message>
        <message>
            <source>How long a step of run %1 would take, had something been otherwise.</source>
            <translation>若某处不同，运行 %1 的一步会用多久。</translation>
        </message>
        <message>
            <source>Close</source>
            <translation>关闭</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::DocumentsPanel</name>
        <message>
            <source>Spec as written</source>
            <translation>所写的规格</translation>
        </message>
        <message>
            <source>Spec as run</source>
            <translation>实际运行的规格</translation>
        </message>
        <message>
            <source>Cluster</source>
            <translation>集群</translation>
        </message>
        <message>
            <source>Plan</source>
            <translation>计划</translation>
        </message>
        <message>
            <source>Code</source>
            <translation>代码</translation>
        </message>
        <message>
            <source>Nothing is kept of this run's launch.</source>
            <translation>没有保留此运行的启动资料。</translation>
        </message>
        <message>
            <source>The first %1 of %2 are shown; a copy has all.</source>
            <translation>仅显示前 %1，共 %2；复制或另存的文本是完整的。</translation>
        </message>
        <message>
            <source>With defaults filled in, and what was set at the launch</source>
            <translation>已填入默认值以及启动时的设置</translation>
        </message>
        <message>
            <source>Commit %1, without changes</source>
            <translation>提交 %1，无改动</translation>
        </message>
        <message>
            <source>Commit %1, with these changes:</source>
            <translation>提交 %1，并有以下改动：</translation>
        </message>
        <message>
            <source>Save %1</source>
            <translation>保存%1</translation>
        </message>
        <message>
            <source>Copy</source>
            <translation>复制</translation>
        </message>
        <message>
            <source>Copy this text</source>
            <translation>复制此文本</translation>
        </message>
        <message>
            <source>Save as…</source>
            <translation>另存为…</translation>
        </message>
        <message>
            <source>Save this text; the changes of the code are for git apply</source>
            <translation>保存此文本；代码的改动供 git apply 使用</translation>
        </message>
        <message>
            <source>Document</source>
            <translation>文档</translation>
        </message>
        <message>
            <source>Text of the document</source>
            <translation>文档的文本</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::DeployDialog</name>
        <message>
            <source>A node that has no agent yet starts it detached.</source>
            <translation>还没有代理的节点以独立进程启动代理。</translation>
        </message>
        <message>
            <source>The agent is a process of its own, which outlives the connection.</source>
            <translation>代理是独立的进程，连接断开后继续运行。</translation>
        </message>
        <message>
            <source>The agent is a unit of the account's systemd, which must linger: loginctl enable-linger.</source>
            <translation>代理是该账户 systemd 的一个单元，账户须启用 linger：loginctl enable-linger。</translation>
        </message>
        <message>
            <source>As a systemd user unit where that works, else detached.</source>
            <translation>可行时作为 systemd 用户单元，否则作为独立进程。</translation>
        </message>
        <message>
            <source>Deploy agents</source>
            <translation>部署代理</translation>
        </message>
        <message>
            <source>Installs Lockstep on every node and starts its agent. Each node remembers how.</source>
            <translation>在每个节点上安装 Lockstep 并启动其代理。每个节点都会记住启动方式。</translation>
        </message>
        <message>
            <source>Deploy</source>
            <translation>部署</translation>
        </message>
        <message>
            <source>Cancel</source>
            <translation>取消</translation>
        </message>
        <message>
            <source>How agents start</source>
            <translation>代理的启动方式</translation>
        </message>
        <message>
            <source>As chosen before</source>
            <translation>沿用之前的选择</translation>
        </message>
        <message>
            <source>Detached</source>
            <translation>独立进程</translation>
        </message>
        <message>
            <source>systemd user unit</source>
            <translation>systemd 用户单元</translation>
        </message>
        <message>
            <source>systemd user unit where possible</source>
            <translation>尽可能使用 systemd 用户单元</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::Dialog</name>
        <message>
            <source>The command that does the same</source>
            <translation>效果相同的命令</translation>
        </message>
    </context>
    <context>
        <name>lockstep::ui::SummaryModel</name>
        <message>
            <source>Setting</source>
            <translation>设置</translation>
        </message>
        <message>
            <source>What would be run</source>
            <translation>将运行的内容</translation>
        </message>
    </context>
</TS>
