# The same values told to Weights & Biases, MLflow, Lightning, and the Trainer of transformers.
import os
import tempfile

os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", TOKENIZERS_PARALLELISM="false")
os.environ["MLFLOW_TRACKING_URI"] = "sqlite:///" + tempfile.mkdtemp() + "/mlflow.db"

import lightning
import mlflow
import torch
import transformers
import wandb
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

run = wandb.init(project="lockstep", dir=tempfile.mkdtemp())
mlflow.start_run()
for step in range(1, 11):
    wandb.log({"wandb/loss": 1 / step, "wandb/text": "not a number"}, step=step)
    run.log({"wandb/rate": step / 8})  # of the same step, in wandb's own count
    mlflow.log_metric("mlflow/loss", 2 / step, step=step)
    mlflow.log_metrics({"mlflow/rate": step / 4}, step=step)
run.finish()
mlflow.end_run()


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def training_step(self, batch, index):
        self.log("lightning/step", float(self.global_step + 1))
        return self.layer(batch[0]).square().mean()

    def validation_step(self, batch, index):
        self.log("lightning/tested", float(self.current_epoch))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


data = DataLoader(TensorDataset(torch.randn(80, 8)), batch_size=8)
lightning.Trainer(max_epochs=2, log_every_n_steps=5, enable_progress_bar=False, logger=False, accelerator="cpu",
                  enable_checkpointing=False, enable_model_summary=False).fit(Module(), data, data)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def forward(self, x, labels):
        return {"loss": (self.layer(x).squeeze(1) - labels).square().mean()}


rows = [{"x": torch.randn(8), "labels": torch.tensor(1.0)} for _ in range(80)]
settings = transformers.TrainingArguments(tempfile.mkdtemp(), per_device_train_batch_size=8, num_train_epochs=1,
                                          logging_steps=5, report_to=[], save_strategy="no", use_cpu=True,
                                          disable_tqdm=True)
transformers.Trainer(model=Net(), args=settings, train_dataset=rows).train()
